#!/usr/bin/env bash
# check-openapi.sh BIN: starts the server with the demo fleet, and compares it with its OpenAPI document. It uses schemathesis
# (in the folder BIN) with all checks and the same requests in each run.
#
# EXAMPLES sets the number of requests for each operation, SEED the choice of requests.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/$1
settings=$PWD/scripts/schemathesis
cargo build --quiet --bin flux-resourceset
folder=$(mktemp -d)
server=
stop() {
  if [[ -n $server ]]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$folder"
}
trap stop EXIT
# The port that the system chooses is in the server's log.
env AUTH_TOKEN=read CRUD_AUTH_TOKEN=write API_MODE=crud STORE_BACKEND=memory SEED_FILE=data/seed.json \
  LISTEN_ADDR=127.0.0.1:0 LOG_FORMAT=json RUST_LOG=info target/debug/flux-resourceset >"$folder/log" 2>&1 &
server=$!
url=
for _ in $(seq 100); do
  url=$(sed -n 's/.*"address":"\([0-9.:]*\)".*/\1/p' "$folder/log" | tail -n 1)
  [[ -n $url ]] && break
  sleep 0.1
done
[[ -n $url ]] || { echo "the server did not start:" >&2; cat "$folder/log" >&2; exit 1; }
# Schemathesis keeps a database of examples in the current folder, and reads the hooks from there.
cp "$settings"/* "$folder"
cd "$folder"
if ! "$bin/schemathesis" run "http://$url/openapi.yaml" --header 'Authorization: Bearer write' --checks all \
  --seed "${SEED:-1}" --max-examples "${EXAMPLES:-8}" --request-timeout 20 --workers 1 --warnings off >"$folder/report" 2>&1; then
  cat "$folder/report" >&2
  exit 1
fi
tail -n 1 "$folder/report"
