#!/usr/bin/env bash
# Installs Go where it is missing. Debian's may be older than what a module asks for; Go then fetches the right one by itself.
set -euo pipefail
if ! command -v go >/dev/null; then
  echo "installing golang-go" >&2
  apt-get update -qq && apt-get install -y -qq golang-go
fi
