#!/usr/bin/env bash
# Serves the crud API of the demo on 127.0.0.1:8080, until Ctrl-C.
source "$(dirname "$0")/lib.sh"
need kubectl
kube --namespace "$namespace" get service flux-api-crud >/dev/null ||
  { echo "demo: there is no flux-api-crud on $context: make demo" >&2; exit 1; }
cat <<EOT
In another terminal: make cli-demo, or

  export FLUX_API_URL=$api
  export FLUX_API_TOKEN="\$(kubectl --context $context -n $namespace get secret flux-api-tokens -o jsonpath='{.data.read}' | base64 -d)"
  export FLUX_API_WRITE_TOKEN="\$(kubectl --context $context -n $namespace get secret flux-api-tokens -o jsonpath='{.data.write}' | base64 -d)"

EOT
exec kubectl --context "$context" --namespace "$namespace" port-forward service/flux-api-crud 8080:8080
