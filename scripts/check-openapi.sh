#!/usr/bin/env bash
# check-openapi.sh BIN: starts the server with the demo fleet, and compares it with its OpenAPI document. It uses schemathesis
# (in the folder BIN) with all checks and the same requests in each run.
# The settings are in scripts/schemathesis/.
#
# EXAMPLES sets the number of requests for each operation, SEED the choice of requests.
set -euo pipefail
if [[ -z ${API:-} ]]; then
  exec "$(dirname "$0")/with-server.sh" "$0" "$@"
fi
cd "$(dirname "$0")/.."
schemathesis=$PWD/$1/schemathesis
# It reads its settings from the current folder, and keeps the examples that failed there.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp scripts/schemathesis/* "$folder"
cd "$folder"
if ! "$schemathesis" run "$API/openapi.yaml" --header "Authorization: Bearer $CRUD_AUTH_TOKEN" --checks all \
  --seed "${SEED:-1}" --max-examples "${EXAMPLES:-8}" --request-timeout 20 --warnings off >report 2>&1; then
  cat report >&2
  exit 1
fi
tail -n 1 report
