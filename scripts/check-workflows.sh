#!/usr/bin/env bash
# The workflows by actionlint, which it installs with Go. The shell in them is looked at by shellcheck.
set -euo pipefail
cd "$(dirname "$0")/.."
actionlint=$(scripts/go-tool.sh actionlint)
"$actionlint" .github/workflows/*.yml
echo "actionlint takes .github/workflows"
