#!/usr/bin/env bash
# Adds a namespace with the command line and waits until it is on the cluster. Uses an existing port-forward, or starts one.
source "$(dirname "$0")/lib.sh"
need cargo kubectl curl
wanted=demo-runtime
trap finish EXIT

step "building the command line"
build_cli

step "reaching the API on $api"
reach_api

step "clusters and namespaces"
"$cli" cluster list
"$cli" namespace list

step "adding the namespace $wanted to demo-cluster-01"
"$cli" demo add-namespace demo-cluster-01 "$wanted" --label team=platform --annotation owner=cli-demo

step "requesting a poll now, instead of within 30 s"
now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
for object in resourcesetinputprovider/namespaces resourceset/namespaces; do
  kube --namespace "$namespace" annotate --overwrite "$object" "reconcile.fluxcd.io/requestedAt=$now"
done

step "the namespace on the cluster"
await 120 "$wanted" kube get namespace "$wanted"
kube get namespace "$wanted" --show-labels
