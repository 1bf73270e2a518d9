#!/usr/bin/env bash
# bootstraps.sh CLI FOLDER: writes what `cluster bootstrap` prints in each of its forms, a file each. Runs beside a server
# (scripts/with-server.sh), to which it adds a kind, as users do at run time.
set -euo pipefail
cli=$(realpath "$1")
out=$(realpath "$2")
cd "$(dirname "$0")/.."
export FLUX_API_URL=$API FLUX_API_TOKEN=$AUTH_TOKEN FLUX_API_WRITE_TOKEN=$CRUD_AUTH_TOKEN
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=demo-cluster-01.k8s.example.com \
  -keyout "$work/tls.key" -out "$work/tls.pem" 2>/dev/null
"$cli" kind apply -f k8s/examples/network-policies/network_policy.yaml >/dev/null

# bootstrap NAME OPTIONS...
bootstrap() {
  local name=$1
  shift
  "$cli" cluster bootstrap demo-cluster-01 "$@" >"$out/bootstrap-$name.yaml" 2>"$work/said" || { cat "$work/said" >&2; exit 1; }
}
https=https://fleet.example.com
bootstrap token --url "$https" --expires-in 90d
bootstrap plain-http --url http://fleet.example.com --interval 30s
bootstrap authority --url "$https" --ca-file "$work/tls.pem" --source oci://ghcr.io/acme/manifests:v1 --flux-instance
bootstrap certificate --url "$https" --ca-file "$work/tls.pem" --cert-file "$work/tls.pem" --key-file "$work/tls.key" \
  --source oci://ghcr.io/acme/manifests
bootstrap evidence --url "$https" --reporter --nudge --notifications --flux-instance
bootstrap evidence-certificate --url "$https" --cert-file "$work/tls.pem" --key-file "$work/tls.key" --reporter --notifications
bootstrap dry-run --url "$https" --dry-run
grep -q network-policies "$out/bootstrap-token.yaml" || { echo "the provider of an added kind is missing" >&2; exit 1; }
