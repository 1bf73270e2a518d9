#!/usr/bin/env bash
# Builds Flux's notification-controller as build.sh builds the other controllers, and prints the folder that holds it: bin/ and crds/. It is apart
# from them because clusters run without it, and so that a new version of it builds nothing else. With `crds` it comes back before it builds.
set -euo pipefail

notification=github.com/fluxcd/notification-controller@v1.9.3

out=${XDG_CACHE_HOME:-$HOME/.cache}/flux-resourceset/notification/$(sha256sum "$0" | cut -c 1-16)
wanted=${1:-complete}
if [[ -e $out/$wanted ]]; then
  echo "$out"
  exit
fi
command -v go >/dev/null || { echo "e2e: Go is needed to build notification-controller; its version is in kube/go.mod" >&2; exit 1; }

work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
dir=$(go mod download -json "$notification" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
[[ -n $dir ]] || { echo "e2e: no module $notification" >&2; exit 1; }
cp -r "$dir" "$work/src"
chmod -R u+w "$work/src"

if [[ ! -e $out/crds ]]; then
  mkdir "$work/crds"
  cp "$work/src/config/crd/bases"/*.yaml "$work/crds/"
  # As Flux Operator installs it: it adds its own kinds to those that alerts know.
  sed -i 's/^\( *\)- OCIRepository$/&\n\1- ResourceSet\n\1- ResourceSetInputProvider/' "$work/crds/"*_alerts.yaml
  mkdir -p "$out"
  mv "$work/crds" "$out/crds"
fi
if [[ $wanted == crds ]]; then
  echo "$out"
  exit
fi

echo "e2e: building notification-controller" >&2
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -mod=mod" # what is replaced has no line in their go.sum
(
  cd "$work/src"
  go mod edit -replace "github.com/fluxcd/notification-controller/api=github.com/fluxcd/notification-controller/api@${notification#*@}"
  go build -buildvcs=false -trimpath -ldflags "-s -w" -o "$work/notification-controller" .
)
mkdir -p "$out/bin"
mv "$work/notification-controller" "$out/bin/"
touch "$out/complete"
echo "$out"
