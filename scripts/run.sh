#!/usr/bin/env bash
# Starts the server with the demo fleet and prints commands to try. Tokens come from the environment (the Makefile sets demo ones).
set -euo pipefail
cd "$(dirname "$0")/.."
url="http://${LISTEN_ADDR/0.0.0.0/127.0.0.1}"
cat <<EOT

  flux-resourceset on $url, store: data/flux-resourceset.db, Ctrl-C stops it. In another terminal, run
  \`make play\` to see the life of a fleet. The dashboard is at $url/ui: sign in with the token $CRUD_AUTH_TOKEN.
  Or try these commands:

    export API=$url READ='Authorization: Bearer $AUTH_TOKEN' WRITE='Authorization: Bearer $CRUD_AUTH_TOKEN'

    # what Flux gets on the demo cluster
    curl -s -H "\$READ" \$API/api/v2/flux/clusters/demo-cluster-01.k8s.example.com/platform-components
    # change a value there; the next poll returns it
    curl -s -H "\$WRITE" -H 'Content-Type: application/json' -X PATCH \$API/clusters/demo-cluster-01 \\
      -d '{"patches": {"podinfo": {"replicaCount": "3"}}}'
    # who changed what
    curl -s -H "\$READ" \$API/changes
    # the whole API
    curl -s \$API/openapi.yaml

EOT
API_MODE=crud LISTEN_ADDR=$LISTEN_ADDR exec target/quick/flux-resourceset
