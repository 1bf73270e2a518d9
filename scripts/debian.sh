#!/usr/bin/env bash
# debian.sh COMMAND[:PACKAGE]...: installs Debian's package of each missing command.
set -euo pipefail
missing=()
for word in "$@"; do
  command -v "${word%%:*}" >/dev/null || missing+=("${word##*:}")
done
[[ ${#missing[@]} == 0 ]] && exit
if ! command -v apt-get >/dev/null; then
  echo "missing, and there is no apt-get to install them with: ${missing[*]}" >&2
  exit 1
fi
root=()
if [[ $(id -u) != 0 ]]; then
  command -v sudo >/dev/null || { echo "missing, and only root can install them: apt-get install ${missing[*]}" >&2; exit 1; }
  root=(sudo)
fi
echo "installing ${missing[*]}" >&2
"${root[@]}" apt-get update -qq
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
