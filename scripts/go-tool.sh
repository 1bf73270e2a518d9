#!/usr/bin/env bash
# Prints the path of helm, kustomize or actionlint. Builds the tool once, from its Go module at the version below.
#
#   "$(scripts/go-tool.sh helm)" lint deploy/chart/flux-resourceset
set -euo pipefail
case ${1:-} in
  helm) package=helm.sh/helm/v3/cmd/helm@v3.22.0 ;;
  kustomize) package=sigs.k8s.io/kustomize/kustomize/v5@v5.8.2 ;;
  actionlint) package=github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 ;;
  *)
    sed -n '2,/^set/{/^#/p}' "$0" >&2
    exit 2
    ;;
esac
cache="${XDG_CACHE_HOME:-$HOME/.cache}/flux-resourceset/$1-${package#*@v}"
if [[ ! -x $cache/$1 ]]; then
  "$(dirname "$0")/go.sh"
  echo "installing $1 ${package#*@} (a few minutes)" >&2
  GOBIN=$cache CGO_ENABLED=0 go install "$package" >&2
fi
echo "$cache/$1"
