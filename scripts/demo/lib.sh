# shellcheck shell=bash disable=SC2034 # Sourced by the scripts of the demo with kind, which use what is set here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

cluster=flux-demo
context=kind-$cluster
namespace=flux-system
image=flux-resourceset:local
api=http://127.0.0.1:8080

# Never the cluster that somebody works with otherwise.
kube() {
  kubectl --context "$context" "$@"
}

# need TOOL...: every tool that is missing in one line, with how to get it.
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

# await SECONDS WHAT COMMAND...: repeats the command until it succeeds, with a dot for each time that it does not.
await() {
  local limit=$1 what=$2 start=$SECONDS said
  shift 2
  printf '    waiting for %s ' "$what"
  until said=$("$@" 2>&1); do
    if ((SECONDS - start >= limit)); then
      printf '\ndemo: waited %s s for %s, in vain: %s\n' "$limit" "$what" "${said:-no answer}" >&2
      return 1
    fi
    printf .
    sleep 2
  done
  printf ' %s s\n' $((SECONDS - start))
}

# is_ready KIND/NAME: one look.
is_ready() {
  kube --namespace "$namespace" wait --for=condition=Ready --timeout=0s "$1"
}

# Says where it ended and shows what the cluster has to say about it; set as a trap by those who change something.
explain_failure() {
  local status=$?
  ((status == 0)) && return
  printf '\ndemo: failed while: %s\n' "${doing:-starting}" >&2
  if command -v kubectl >/dev/null && kube get --raw /readyz >/dev/null 2>&1; then
    {
      kube --namespace "$namespace" get pods,fluxinstances,resourcesetinputproviders,resourcesets 2>/dev/null || true
      kube --namespace "$namespace" get events --field-selector type=Warning --sort-by .lastTimestamp 2>/dev/null | tail -n 10
      printf '\nLook on: kubectl --context %s -n %s describe pods; logs deploy/flux-api-read; logs deploy/flux-operator\n' \
        "$context" "$namespace"
    } >&2
  fi
  echo "Run it again when it is mended: every step can be repeated. make kind-delete removes everything." >&2
}
