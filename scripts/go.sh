#!/usr/bin/env bash
# Installs Go where it is missing. Debian's may be older than what a module asks for; Go then fetches the right one by itself.
set -euo pipefail
exec "$(dirname "$0")/debian.sh" go:golang-go
