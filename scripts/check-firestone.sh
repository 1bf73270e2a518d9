#!/usr/bin/env bash
# The kinds that we ship are Firestone resource files, and the document that we make of them is valid OpenAPI.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1
resources=$(find resources -name '*.yaml' | sort | paste -sd, -)
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"$bin/firestone" generate --title flux-resourceset --description kinds --version 1.0 --resources "$resources" \
  openapi --version 3.0.3 > "$out"
"$bin/openapi-spec-validator" openapi/openapi.yaml
echo "firestone takes $resources"
