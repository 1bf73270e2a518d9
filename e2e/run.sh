#!/usr/bin/env bash
# The whole test: builds missing programs, then takes a cluster through its life. Arguments go to the runner (--help lists them). With
# `demo` it starts the same clusters, prints commands to try, and leaves them running until Ctrl-C.
set -euo pipefail
cd "$(dirname "$0")/.."
parts=$(e2e/build.sh)
kubectl=$(e2e/kubectl.sh)
scripts/debian.sh openssl
cargo build --quiet --release --package flux-resourceset --package flux-resourceset-cli --package e2e
built=$(realpath "${CARGO_TARGET_DIR:-target}/release")
arguments=(--parts "$parts" --server "$built/flux-resourceset" --cli "$built/flux-resourceset-cli" --kubectl "$kubectl")
if [[ " $* " != *" demo "* ]]; then
  notification=$(e2e/notification.sh)
  # By itself: the reporter's dependencies are no part of the others.
  cargo build --quiet --release --package flux-resourceset-reporter
  arguments+=(--notification "$notification" --reporter "$built/flux-resourceset-reporter")
fi
exec "$built/e2e" "${arguments[@]}" "$@"
