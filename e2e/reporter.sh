#!/usr/bin/env bash
# The reporter on a real Kubernetes API with the real Flux, as the ServiceAccount of k8s/reporter. Builds missing programs.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/go.sh
parts=$(e2e/build.sh)
profile=${PROFILE:-release}
# Each by itself: the reporter's dependencies are no part of the others.
cargo build --quiet --profile "$profile" --package flux-resourceset-reporter
cargo build --quiet --profile "$profile" --package e2e
built=$(realpath "${CARGO_TARGET_DIR:-target}/${profile/dev/debug}")
exec "$built/e2e" reporter --parts "$parts" --reporter "$built/flux-resourceset-reporter"
