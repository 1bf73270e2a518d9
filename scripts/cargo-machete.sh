#!/usr/bin/env bash
# Finds dependencies that no crate uses, with cargo-machete. Installs cargo-machete if it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.9.2
if ! cargo machete --version 2>/dev/null | grep -qF "$version"; then
  echo "installing cargo-machete $version" >&2
  # Unoptimised: to build it takes longer than to run it.
  cargo install --quiet --locked --debug "cargo-machete@$version"
fi
cargo machete
