#!/usr/bin/env bash
# Builds Kubernetes and Flux from their published Go modules at the versions below, and prints the folder that holds them:
# bin/ and crds/. The folder is named by the hash of the pins, so a second call builds nothing. Where modules come from is
# Go's own configuration (GOPROXY and friends).
set -euo pipefail
cd "$(dirname "$0")"

kubernetes=v1.36.3 # with etcd, in kube/go.mod
operator=github.com/controlplaneio-fluxcd/flux-operator@v0.58.1
source=github.com/fluxcd/source-controller@v1.9.4
kustomize=github.com/fluxcd/kustomize-controller@v1.9.4
helm=github.com/fluxcd/helm-controller@v1.6.2 # 1.6.3 needs a fork of Helm that the public proxy does not serve

pins=$(cat build.sh kube/go.mod kube/go.sum kube/main.go | sha256sum | cut -c 1-16)
out=${XDG_CACHE_HOME:-$HOME/.cache}/flux-resourceset/e2e/$pins
if [[ -e $out/complete ]]; then
  echo "$out"
  exit
fi
command -v go >/dev/null || { echo "e2e: Go is needed to build Kubernetes and Flux; its version is in kube/go.mod" >&2; exit 1; }

work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
mkdir -p "$out/bin" "$out/crds"
export CGO_ENABLED=0

# compile NAME FOLDER PACKAGE LDFLAGS...: one binary, put in place only when it is whole, so that a build can be resumed.
compile() {
  local name=$1 folder=$2 package=$3
  shift 3
  [[ -e $out/bin/$name ]] && return
  echo "e2e: building $name" >&2
  (cd "$folder" && go build -buildvcs=false -trimpath -ldflags "-s -w $*" -o "$work/$name" "$package")
  mv "$work/$name" "$out/bin/$name"
}

# copied NAME MODULE@VERSION REPLACE...: a module's source in a folder of its own. A published module cannot use the `replace`
# lines that its authors build with (`./api`), so others stand in their place.
copied() {
  local name=$1 module=$2
  shift 2
  local dir
  dir=$(go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  [[ -n $dir ]] || { echo "e2e: no module $module" >&2; exit 1; }
  cp -r "$dir" "$work/$name.src"
  chmod -R u+w "$work/$name.src"
  cp "$work/$name.src"/config/crd/bases/*.yaml "$out/crds/"
  local replace
  for replace in "$@"; do
    (cd "$work/$name.src" && go mod edit -replace "$replace")
  done
}

compile kube kube . -X "k8s.io/component-base/version.gitVersion=$kubernetes"

# What is replaced beyond `./api` is pinned by its authors to a version that the public proxy does not serve.
export GOFLAGS="${GOFLAGS:-} -mod=mod" # what is replaced has no line in their go.sum
copied operator "$operator" \
  github.com/google/go-containerregistry/pkg/authn/kubernetes=github.com/google/go-containerregistry/pkg/authn/kubernetes@v0.0.0-20260224031529-85f2bf5f7303
mkdir -p "$work/operator.src/web/dist" # the operator embeds its web page, which is not in the module
touch "$work/operator.src/web/dist/index.html"
compile operator "$work/operator.src" ./cmd/operator -X "main.VERSION=${operator#*@}"

copied source-controller "$source" \
  "github.com/fluxcd/source-controller/api=github.com/fluxcd/source-controller/api@${source#*@}" \
  github.com/fluxcd/pkg/artifact=github.com/fluxcd/pkg/artifact@v0.18.1
compile source-controller "$work/source-controller.src" .

copied kustomize-controller "$kustomize" \
  "github.com/fluxcd/kustomize-controller/api=github.com/fluxcd/kustomize-controller/api@${kustomize#*@}"
compile kustomize-controller "$work/kustomize-controller.src" .

copied helm-controller "$helm" \
  "github.com/fluxcd/helm-controller/api=github.com/fluxcd/helm-controller/api@${helm#*@}"
compile helm-controller "$work/helm-controller.src" .

touch "$out/complete"
echo "$out"
