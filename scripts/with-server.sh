#!/usr/bin/env bash
# with-server.sh COMMAND...: starts the server with the demo fleet in memory, on a free port, and runs a command beside it. The
# command has API, AUTH_TOKEN and CRUD_AUTH_TOKEN in its environment. The server stops when the command ends. It is built, unless
# SERVER names one.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export AUTH_TOKEN=a-token-that-reads CRUD_AUTH_TOKEN=a-token-that-writes
if [[ -z ${SERVER:-} ]]; then
  # As the tests build it: alone, it has other features of dependencies, which would be compiled twice.
  cargo build --quiet --manifest-path "$root/Cargo.toml" --workspace --bins
  SERVER=$root/target/debug/flux-resourceset
fi
log=$(mktemp)
server=
stop() {
  if [[ -n $server ]]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -f "$log"
}
trap stop EXIT
API_MODE=crud STORE_BACKEND=memory SEED_FILE=$root/data/seed.json LISTEN_ADDR=127.0.0.1:0 LOG_FORMAT=json RUST_LOG=info \
  "$SERVER" >"$log" 2>&1 &
server=$!
# The port that the system chose is in the log.
address=
for _ in $(seq 300); do
  address=$(sed -n 's/.*"message":"listening","address":"\([0-9.:]*\)".*/\1/p' "$log")
  [[ -n $address ]] && break
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
if [[ -z $address ]]; then
  echo "the server did not start:" >&2
  cat "$log" >&2
  exit 1
fi
API=http://$address "$@"
