#!/usr/bin/env bash
# Prints the folder of PostgreSQL's server programs. Installs Debian's package if they are missing. The tests start their own
# servers from them, in temporary folders and as an unprivileged user: no system-wide cluster is created or started.
set -euo pipefail

# Searches like crates/pgtest: in PG_BIN, in the PATH, then in Debian's folders, the latest version first.
find_bin() {
  local folder
  local folders=()
  [[ -n ${PG_BIN:-} ]] && folders+=("$PG_BIN")
  IFS=: read -ra path <<<"$PATH"
  folders+=("${path[@]}")
  while read -r folder; do
    folders+=("$folder/bin")
  done < <(find /usr/lib/postgresql -mindepth 1 -maxdepth 1 2>/dev/null | sort -rV)
  for folder in "${folders[@]}"; do
    if [[ -x $folder/initdb && -x $folder/postgres && -x $folder/pg_ctl && -x $folder/psql ]]; then
      echo "$folder"
      return
    fi
  done
  return 1
}

as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "PostgreSQL is missing, and only root can install it: apt-get install postgresql" >&2
    exit 1
  fi
}

install() {
  if ! command -v apt-get >/dev/null; then
    echo "PostgreSQL is missing: install version 14 or later, and set PG_BIN to the folder of its initdb, postgres, pg_ctl and psql" >&2
    exit 1
  fi
  echo "installing postgresql" >&2
  as_root apt-get update -qq
  # The package would create a cluster and start it. This file prevents that; an existing one is kept.
  local config=/etc/postgresql-common/createcluster.conf
  if [[ ! -e $config ]]; then
    as_root mkdir -p "${config%/*}"
    echo 'create_main_cluster = false' | as_root tee "$config" >/dev/null
  fi
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o Dpkg::Options::=--force-confold postgresql >&2
}

if ! find_bin; then
  install
  if ! find_bin; then
    echo "the package postgresql is installed, but its programs are not under /usr/lib/postgresql" >&2
    exit 1
  fi
fi
