#!/usr/bin/env bash
# Creates a Kubernetes cluster of one node in a container. Keeps an existing one.
source "$(dirname "$0")/lib.sh"
need docker kind kubectl
trap explain_failure EXIT
step "kind cluster $cluster"
if cluster_exists; then
  echo "    it exists already"
else
  kind create cluster --name "$cluster"
fi
await 180 "its node" kube wait --for=condition=Ready --timeout=0s nodes --all
