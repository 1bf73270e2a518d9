#!/usr/bin/env bash
# Runs the checks of cargo-deny that the arguments name. Installs cargo-deny if it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.20.2
if ! cargo deny --version 2>/dev/null | grep -qF "$version"; then
  echo "installing cargo-deny $version" >&2
  # Unoptimised: to build it takes longer than to run it.
  cargo install --quiet --locked --debug "cargo-deny@$version"
fi
cargo deny --all-features check "$@"
