#!/usr/bin/env bash
# Checks every shell script of the repository. Installs shellcheck if it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/debian.sh shellcheck
find . -name '*.sh' -not -path './target/*' -not -path './.cache/*' -not -path '*/node_modules/*' -print0 |
  sort --zero-terminated | xargs --null shellcheck --external-sources --source-path=SCRIPTDIR
