#!/usr/bin/env bash
# Checks that the shipped kinds are valid Firestone resources, and that the OpenAPI document made of them is valid.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1
resources=$(find resources -name '*.yaml' | sort | paste -sd, -)
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"$bin/firestone" generate --title flux-resourceset --description kinds --version 1.0 --resources "$resources" \
  openapi --version 3.0.3 > "$out"
"$bin/openapi-spec-validator" openapi/openapi.yaml
echo "firestone accepts $resources"
