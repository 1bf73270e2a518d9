#!/usr/bin/env bash
# Installs the tests' Python tools into the folder given, and Python itself where it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$1
if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
  echo "installing python3-venv" >&2
  apt-get update -qq && apt-get install -y -qq python3-venv
fi
rm -rf "$target"
python3 -m venv "$target"
"$target/bin/pip" install --quiet --disable-pip-version-check -r scripts/python-tools.txt
touch "$target/ready"
