#!/usr/bin/env bash
# Adds a namespace with the command line and waits until it is on the cluster. Uses an existing port-forward, or starts one.
source "$(dirname "$0")/lib.sh"
need cargo kubectl curl
wanted=demo-runtime
forward=""
tidy() {
  explain_failure
  [[ -z $forward ]] || kill "$forward" 2>/dev/null || true
}
trap tidy EXIT

step "building the command line"
cargo build --quiet --bin flux-resourceset-cli
cli=${CARGO_TARGET_DIR:-target}/debug/flux-resourceset-cli

step "reaching the API on $api"
answers() { curl --silent --show-error --fail --max-time 2 --output /dev/null "$api/ready"; }
if ! answers 2>/dev/null; then
  kube --namespace "$namespace" port-forward service/flux-api-crud 8080:8080 >/dev/null &
  forward=$!
  await 30 "the port-forward" answers
fi
token=$(kube --namespace "$namespace" get secret internal-api-token --output 'jsonpath={.data.token}' | base64 -d)
export FLUX_API_URL=$api FLUX_API_TOKEN=$token FLUX_API_WRITE_TOKEN=$token

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
