#!/usr/bin/env bash
# Checks the workflows with actionlint, which it installs with Go. shellcheck checks the shell code in them.
set -euo pipefail
cd "$(dirname "$0")/.."
actionlint=$(scripts/go-tool.sh actionlint)
"$actionlint" .github/workflows/*.yml
echo "actionlint accepts .github/workflows"
