#!/usr/bin/env bash
# Builds the image of the demo. The build has no Git repository, so the commit is an argument.
source "$(dirname "$0")/lib.sh"
need docker
docker info >/dev/null 2>&1 || { echo "demo: the docker daemon does not respond: start it (docker info shows the reason)" >&2; exit 1; }
docker build --tag "$image" \
  --build-arg GIT_COMMIT="$(git rev-parse HEAD 2>/dev/null || true)" \
  --build-arg GIT_COMMIT_DATE="$(git log -1 --format=%cs 2>/dev/null || true)" \
  --build-arg VERSION=local .
