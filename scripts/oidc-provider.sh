#!/usr/bin/env bash
# Prints the path of the OpenID provider that tests log in to. Builds it once, with Go, from scripts/oidc-provider.
set -euo pipefail
source="$(cd "$(dirname "$0")" && pwd)/oidc-provider"
content=$(cat "$source"/{main.go,go.mod,go.sum} | sha256sum | cut -c 1-16)
cache="${XDG_CACHE_HOME:-$HOME/.cache}/flux-resourceset/oidc-provider-$content"
if [[ ! -x $cache/oidc-provider ]]; then
  "$(dirname "$0")/go.sh"
  echo "building the OpenID provider of the tests" >&2
  mkdir -p "$cache"
  # Several tests may build it at a time: each puts its own in place.
  (cd "$source" && CGO_ENABLED=0 go build -buildvcs=false -o "$cache/oidc-provider.$$" .) >&2
  mv "$cache/oidc-provider.$$" "$cache/oidc-provider"
fi
echo "$cache/oidc-provider"
