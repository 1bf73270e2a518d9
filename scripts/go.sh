#!/usr/bin/env bash
# Installs Go if it is missing. Debian's version may be older than a module requires; Go then fetches the right version itself.
set -euo pipefail
exec "$(dirname "$0")/debian.sh" go:golang-go
