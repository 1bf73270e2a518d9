# shellcheck shell=bash disable=SC2034 # Sourced by the scripts of the kind demo, which use these variables.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

cluster=flux-demo
context=kind-$cluster
namespace=flux-system
image=flux-resourceset:local
api=http://127.0.0.1:8080

# Always uses the demo's context, never the current one.
kube() {
  kubectl --context "$context" "$@"
}

# need TOOL...: fails if tools are missing, and lists all of them with how to install each.
need() {
  local tool missing=""
  for tool in "$@"; do
    command -v "$tool" >/dev/null || missing+="${missing:+, }$tool ($(origin "$tool"))"
  done
  [[ -z $missing ]] || { echo "demo: missing: $missing" >&2; exit 1; }
}

origin() {
  case $1 in
    docker) echo "https://docs.docker.com/engine/install" ;;
    kind) echo "go install sigs.k8s.io/kind@latest" ;;
    kubectl) echo "https://kubernetes.io/docs/tasks/tools" ;;
    cargo) echo "https://rustup.rs" ;;
    *) echo "your system's package of this name" ;;
  esac
}

cluster_exists() {
  kind get clusters 2>/dev/null | grep -x "$cluster" >/dev/null
}

doing=""
step() {
  doing=$1
  printf '\n==> %s\n' "$1"
}

# await SECONDS WHAT COMMAND...: repeats the command until it succeeds, and prints a dot for each failure.
await() {
  local limit=$1 what=$2 start=$SECONDS said
  shift 2
  printf '    waiting for %s ' "$what"
  until said=$("$@" 2>&1); do
    if ((SECONDS - start >= limit)); then
      printf '\ndemo: timeout after %s s waiting for %s: %s\n' "$limit" "$what" "${said:-no output}" >&2
      return 1
    fi
    printf .
    sleep 2
  done
  printf ' %s s\n' $((SECONDS - start))
}

# is_ready KIND/NAME: checks once, without waiting.
is_ready() {
  kube --namespace "$namespace" wait --for=condition=Ready --timeout=0s "$1"
}

# build_cli: builds the command line, as $cli.
build_cli() {
  cargo build --quiet --bin flux-resourceset-cli
  cli=${CARGO_TARGET_DIR:-target}/debug/flux-resourceset-cli
}

# reach_api: sets the command line up for the crud server on $api. Uses an existing port-forward, or starts one, which the script ends.
forward=""
reach_api() {
  if ! api_answers 2>/dev/null; then
    kube --namespace "$namespace" port-forward service/flux-api-crud 8080:8080 >/dev/null &
    forward=$!
    await 30 "the port-forward" api_answers
  fi
  FLUX_API_URL=$api FLUX_API_TOKEN=$(api_token read) FLUX_API_WRITE_TOKEN=$(api_token write)
  export FLUX_API_URL FLUX_API_TOKEN FLUX_API_WRITE_TOKEN
}

api_answers() {
  curl --silent --show-error --fail --max-time 2 --output /dev/null "$api/ready"
}

# api_token KEY: the token of the API for `read` or `write`.
api_token() {
  kube --namespace "$namespace" get secret flux-api-tokens --output "jsonpath={.data.$1}" | base64 -d
}

# End of scripts that change something: explains a failure, and ends the port-forward.
finish() {
  explain_failure
  [[ -z $forward ]] || kill "$forward" 2>/dev/null || true
}

# Prints the failed step and the state of the cluster. Scripts that change something set it as a trap.
explain_failure() {
  local status=$?
  ((status == 0)) && return
  printf '\ndemo: failed while: %s\n' "${doing:-starting}" >&2
  if command -v kubectl >/dev/null && kube get --raw /readyz >/dev/null 2>&1; then
    {
      kube --namespace "$namespace" get pods,fluxinstances,resourcesetinputproviders,resourcesets 2>/dev/null || true
      kube --namespace "$namespace" get events --field-selector type=Warning --sort-by .lastTimestamp 2>/dev/null | tail -n 10
      printf '\nFor details: kubectl --context %s -n %s describe pods; logs deploy/flux-api-read; logs deploy/flux-operator\n' \
        "$context" "$namespace"
    } >&2
  fi
  echo "Fix the cause and run it again: every step can be repeated. make kind-delete removes everything." >&2
}
