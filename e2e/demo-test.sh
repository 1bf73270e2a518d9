#!/usr/bin/env bash
# Tests the demo as a user runs it: starts it, runs every command that it prints, stops it. No process and no file may be left.
set -euo pipefail
cd "$(dirname "$0")/.."
home=$(mktemp -d)
export TMPDIR=$home/tmp # so that everything that is started has this name in its arguments
mkdir "$TMPDIR"
log=$home/log
pid=''

fail() {
  echo "demo-test: $*" >&2
  [[ ! -s $log ]] || tail -n 30 "$log" >&2
  exit 1
}
tidy() {
  local code=$?
  if [[ -n $pid ]] && kill -TERM "$pid" 2>/dev/null; then wait "$pid" || true; fi
  rm -rf "$home"
  exit "$code"
}
trap tidy EXIT

start() {
  : >"$log"
  e2e/run.sh demo >"$log" 2>&1 &
  pid=$!
}
# await WHAT SECONDS COMMAND...: until the command succeeds.
await() {
  local what=$1 seconds=$2
  shift 2
  local end=$((SECONDS + seconds))
  until "$@"; do
    kill -0 "$pid" 2>/dev/null || fail "it ended before $what"
    ((SECONDS < end)) || fail "timeout after $seconds s waiting for: $what"
    sleep 0.2
  done
}
stop() { # SIGNAL
  local code=0
  kill "-$1" "$pid"
  wait "$pid" || code=$?
  pid=''
  [[ $code == 0 ]] || fail "after SIG$1 it ended with code $code"
  left=$(pgrep -fa "$TMPDIR" || true)
  [[ -z $left ]] || fail "still running after SIG$1: $left"
  left=$(ls -A "$TMPDIR")
  [[ -z $left ]] || fail "not removed after SIG$1: $left"
  echo "demo-test: SIG$1 stops everything and removes it"
}

start
await "everything runs" 600 grep -q '^Ctrl-C stops everything' "$log"
# shellcheck disable=SC1090 # written by the demo
(
  source "$TMPDIR"/*/environment
  # Commands are indented and begin with a program's name; after a backslash they continue in the next line.
  sed -e ':a' -e '/\\$/N; s/\\\n *//; ta' "$log" | sed -n 's/^  \(\(flux-resourceset-cli\|kubectl\) .*\)/\1/p' >"$home/commands"
  [[ $(wc -l <"$home/commands") -ge 10 ]] || fail "the demo prints hardly any commands"
  while read -r command; do
    code=0
    # A watch does not end by itself.
    timeout 5 bash -c "$command" </dev/null >"$home/said" 2>&1 || code=$?
    [[ $code == 0 || ($code == 124 && $command == *" -w") ]] || fail "code $code of $command: $(cat "$home/said")"
    echo "demo-test: ✓ $command"
  done <"$home/commands"
)
stop INT

start
await "the first API server starts" 120 pgrep -f "apiserver.*$TMPDIR" >/dev/null
stop TERM
