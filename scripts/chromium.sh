#!/usr/bin/env bash
# Prepares the tests of the dashboard in a browser: Debian's Chromium with its driver, and axe-core in target/axe-core.
set -euo pipefail
cd "$(dirname "$0")/.."
version=4.14.0
digest=2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af
scripts/debian.sh chromium chromedriver:chromium-driver
[[ -f target/axe-core/$version/axe.min.js ]] && exit
scripts/debian.sh npm
echo "fetching axe-core $version" >&2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm pack --silent --pack-destination "$folder" "axe-core@$version" >/dev/null
echo "$digest  $folder/axe-core-$version.tgz" | sha256sum --check --quiet
tar -xzf "$folder/axe-core-$version.tgz" -C "$folder" package/axe.min.js package/LICENSE
mkdir -p target/axe-core
rm -rf "target/axe-core/$version"
mv "$folder/package" "target/axe-core/$version"
