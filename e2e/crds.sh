#!/usr/bin/env bash
# Prints a folder with the definitions of what our manifests use and the parts of build.sh do not define: ServiceMonitor, PrometheusRule, HTTPRoute,
# and those of Flux's notification-controller, from their authors' Go modules. The folder is named by the hash of this file, so a second call fetches nothing.
set -euo pipefail
cd "$(dirname "$0")"

out=${XDG_CACHE_HOME:-$HOME/.cache}/flux-resourceset/crds/$(cat crds.sh notification.sh | sha256sum | cut -c 1-16)
if [[ ! -e $out ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  # taken MODULE@VERSION FILE: one file of a module. That the module may want a newer Go does not matter here.
  taken() {
    local dir
    dir=$(go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    [[ -e $dir/$2 ]] || { echo "e2e: no $2 in $1" >&2; exit 1; }
    install -m 644 "$dir/$2" "$work/"
  }
  taken github.com/prometheus-operator/prometheus-operator@v0.93.0 example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml
  taken github.com/prometheus-operator/prometheus-operator@v0.93.0 example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml
  taken sigs.k8s.io/gateway-api@v1.6.3 config/crd/standard/gateway.networking.k8s.io_httproutes.yaml
  install -m 644 "$(./notification.sh crds)"/crds/*.yaml "$work/"
  mkdir -p "$(dirname "$out")"
  chmod 755 "$work"
  mv "$work" "$out"
fi
echo "$out"
