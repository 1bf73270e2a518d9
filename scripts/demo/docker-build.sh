#!/usr/bin/env bash
# Builds the image of the demo. There is no repository inside of the build, so it is told the commit.
source "$(dirname "$0")/lib.sh"
need docker
docker info >/dev/null 2>&1 || { echo "demo: docker is there, but its daemon does not answer: start it (docker info says why)" >&2; exit 1; }
docker build --tag "$image" \
  --build-arg GIT_COMMIT="$(git rev-parse HEAD 2>/dev/null || true)" \
  --build-arg GIT_COMMIT_DATE="$(git log -1 --format=%cs 2>/dev/null || true)" \
  --build-arg VERSION=local .
