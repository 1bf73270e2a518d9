#!/usr/bin/env bash
# Prints the path of a kubectl: the one on the PATH, or one that is built once from the modules that kube/ pins. It includes kustomize.
set -euo pipefail
cd "$(dirname "$0")"
if found=$(command -v kubectl); then
  realpath --no-symlinks "$found"
  exit
fi
version=v1.36.3
out=${XDG_CACHE_HOME:-$HOME/.cache}/flux-resourceset/kubectl/$version
if [[ ! -x $out/kubectl ]]; then
  command -v go >/dev/null || { echo "e2e: there is no kubectl on the PATH, and no Go to build it with" >&2; exit 1; }
  echo "e2e: there is no kubectl on the PATH; building $version" >&2
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  # Modules that only kubectl needs are not in kube/go.sum, so Go adds them to a copy.
  cp kube/go.mod kube/go.sum "$work/"
  mkdir -p "$out"
  (cd kube && CGO_ENABLED=0 go build -buildvcs=false -trimpath -mod=mod -modfile="$work/go.mod" \
    -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" -o "$work/kubectl" k8s.io/kubernetes/cmd/kubectl)
  mv "$work/kubectl" "$out/kubectl"
fi
echo "$out/kubectl"
