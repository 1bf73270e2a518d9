#!/usr/bin/env bash
# Writes or checks the golden files of crates/resourceset/tests/corpus with the real Flux Operator CLI, the reference for our
# renderer. Installs the CLI with Go if it is missing; FLUX_OPERATOR_CLI names an existing one.
#
#   scripts/judge.sh --write [FILE…]   write the golden file of every case, or of the given cases
#   scripts/judge.sh --check [FILE…]   fail if a golden file differs from the output of the CLI
#   scripts/judge.sh --path            print the path of the CLI
#
# A case is <area>/<name>.yaml, a ResourceSet, with <name>.inputs.yaml or <name>.providers.yaml beside it. Its golden file is the
# output of the CLI; or a line "error:" and the error message, of which only the first line is kept if the CLI crashed.
set -euo pipefail
version=0.58.1
corpus="$(cd "$(dirname "$0")/.." && pwd)/crates/resourceset/tests/corpus"

# Prints the CLI's output or error for a case.
verdict() {
  local name=${1%.yaml} out
  local args=(build resourceset --filename "$1")
  [[ -e $name.inputs.yaml ]] && args+=(--inputs-from "$name.inputs.yaml")
  [[ -e $name.providers.yaml ]] && args+=(--inputs-from-provider "$name.providers.yaml")
  out=$(mktemp)
  # Hide the kubeconfig of this machine, because its context would set the namespace.
  if KUBECONFIG=/dev/null "$FLUX_OPERATOR_CLI" "${args[@]}" >"$out" 2>"$out.err"; then
    cat "$out"
  else
    echo "error:"
    sed -e '1s/^✗ //' -e '/^panic:/q' "$out.err"
  fi
  rm -f "$out" "$out.err"
}

judge() {
  local golden=${2%.yaml}.golden
  if [[ $1 == --write ]]; then
    verdict "$2" >"$golden.new"
    mv "$golden.new" "$golden"
  else
    diff --unified --label "$golden" "$golden" --label judge <(verdict "$2")
  fi
}

case ${1:-} in
  --case) # One case, called by the loop below.
    judge "$2" "$3"
    exit
    ;;
  --write | --check | --path) ;;
  *)
    sed -n '2,/^set/{/^#/p}' "$0" >&2
    exit 2
    ;;
esac

if [[ -z ${FLUX_OPERATOR_CLI:-} ]]; then
  cache="${XDG_CACHE_HOME:-$HOME/.cache}/flux-resourceset/flux-operator-$version"
  FLUX_OPERATOR_CLI=$cache/cli
  if [[ ! -x $FLUX_OPERATOR_CLI ]]; then
    "$(dirname "$0")/go.sh"
    echo "installing the Flux Operator CLI $version (a few minutes)" >&2
    GOBIN=$cache go install "github.com/controlplaneio-fluxcd/flux-operator/cmd/cli@v$version"
  fi
fi
export FLUX_OPERATOR_CLI
if [[ $1 == --path ]]; then
  echo "$FLUX_OPERATOR_CLI"
  exit
fi
# Dates without a zone are local, and the golden files were written on a machine with UTC.
unset TZ
if [[ $(date +%z) != +0000 ]]; then
  export TZ=UTC
fi

mode=$1
shift
if (($# > 0)); then
  printf '%s\0' "$@"
else
  find "$corpus" -name '*.yaml' ! -name '*.inputs.yaml' ! -name '*.providers.yaml' -print0 | sort --zero-terminated
fi | xargs --null --no-run-if-empty --max-args=1 --max-procs="$(nproc)" "$0" --case "$mode"
