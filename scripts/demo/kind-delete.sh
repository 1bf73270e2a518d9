#!/usr/bin/env bash
# Deletes the demo's cluster with everything in it. With `--if-any`, a missing kind is not an error.
source "$(dirname "$0")/lib.sh"
if [[ ${1:-} == --if-any ]] && ! command -v kind >/dev/null; then
  exit
fi
need kind
if cluster_exists; then
  kind delete cluster --name "$cluster"
else
  echo "there is no kind cluster $cluster"
fi
