#!/usr/bin/env bash
# Shows the life of a fleet in a terminal, with a server that `make run` started. Prints every command before it runs it, and then
# the changes in the objects that Flux makes. It creates its own clusters and definitions, and removes them at the end.
set -euo pipefail
cli=${FLUX_RESOURCESET_CLI:+$(realpath "$FLUX_RESOURCESET_CLI")}
cd "$(dirname "$0")/.."

usage() {
  cat <<'EOT'
usage: scripts/play.sh [--yes]

  --yes, -y  do not wait for Enter (the default if stdin or stdout is no terminal, or with PAUSE=0)

Environment:
  FLUX_API_URL                          the server; http://127.0.0.1:8080, or LISTEN_ADDR, if not set
  FLUX_API_TOKEN, FLUX_API_WRITE_TOKEN  its tokens; those of `make run` if not set
  FLUX_RESOURCESET_CLI                  the command line's program; built if not set
  PAUSE=0, NO_COLOR=1
EOT
}

pause=${PAUSE:-1}
for argument in "$@"; do
  case $argument in
    -y | --yes) pause=0 ;;
    -h | --help)
      usage
      exit
      ;;
    *)
      echo "play: unknown argument $argument" >&2
      usage >&2
      exit 2
      ;;
  esac
done
[[ -t 0 && -t 1 ]] || pause=0

listen=${LISTEN_ADDR:-127.0.0.1:8080}
export FLUX_API_URL=${FLUX_API_URL:-http://${listen/0.0.0.0/127.0.0.1}}
export FLUX_API_TOKEN=${FLUX_API_TOKEN:-${AUTH_TOKEN:-demo-read-token}}
export FLUX_API_WRITE_TOKEN=${FLUX_API_WRITE_TOKEN:-${CRUD_AUTH_TOKEN:-demo-write-token}}
FLUX_API_URL=${FLUX_API_URL%/}

if [[ -t 1 && -z ${NO_COLOR:-} && ${TERM:-dumb} != dumb ]]; then
  bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' green=$'\e[32m' cyan=$'\e[36m' plain=$'\e[0m'
else
  bold='' dim='' red='' green='' cyan='' plain=''
fi

fail() {
  echo "play: $*" >&2
  exit 1
}

for tool in curl diff; do
  command -v "$tool" >/dev/null || fail "$tool is required and not on the PATH"
done
curl -sf -o /dev/null --max-time 5 "$FLUX_API_URL/health" || fail "nothing answers at $FLUX_API_URL: run \`make run\` first, in another terminal"

if [[ -z $cli ]]; then
  command -v cargo >/dev/null || fail "cargo is required to build the command line; or set FLUX_RESOURCESET_CLI to a built one"
  echo "${dim}building the command line$plain"
  cargo build --quiet --release --bin flux-resourceset-cli
  cli=$(realpath "${CARGO_TARGET_DIR:-target}/release/flux-resourceset-cli")
fi
[[ -x $cli ]] || fail "$cli is not an executable"

work=$(mktemp -d)
# Ignore the addresses and tokens of a configuration file.
export FLUX_RESOURCESET_CONFIG=$work/none

# Check now that the token may write, not in the middle of the run.
refusal=$("$cli" cluster create play-00 --cluster-dns play-00.example.com --environment dev --dry-run -o json 2>&1 >/dev/null) || {
  rm -rf "$work"
  fail "the server at $FLUX_API_URL accepts no changes: ${refusal#error: }"
}

# Names use the first free number. The label has the process id, so that a later run can clean up after a killed one.
label=made-by=play-$$
number=0
name=''
clusters() { "$cli" cluster list -o jsonpath='{range .items[*]}{.id} {.labels.made-by}{"\n"}{end}'; }
taken() { "$cli" component get "$1-web" -o name >/dev/null 2>&1 || "$cli" namespace get "$1-web" -o name >/dev/null 2>&1; }
remove() { # NAME: its clusters, then the definitions that they used
  local id
  for id in $("$cli" cluster list -l "play=$1" -o jsonpath='{range .items[*]}{.id}{"\n"}{end}'); do
    # Without a terminal on stdin, the command does not ask.
    "$cli" cluster delete "$id" --confirm-removals 1 --reason "play: tidy up" -o json </dev/null >/dev/null
  done
  "$cli" delete profile "$1" --ignore-not-found --reason "play: tidy up" -o json >/dev/null
  "$cli" delete component "$1-web" --ignore-not-found --reason "play: tidy up" -o json >/dev/null
  "$cli" delete namespace "$1-web" --ignore-not-found --reason "play: tidy up" -o json >/dev/null
}

tidy() {
  local code=$?
  trap - EXIT INT TERM HUP
  if [[ -n $name ]]; then remove "$name" || echo "play: $name could not be removed; run this script again" >&2; fi
  rm -rf "$work"
  exit "$code"
}
trap tidy EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Remove the clusters of a run that was killed.
while read -r id maker; do
  [[ $maker == play-* ]] || continue
  if ! kill -0 "${maker#play-}" 2>/dev/null; then
    echo "${dim}an earlier run left $id behind: removing it$plain"
    remove "${id%-*}"
  fi
done < <(clusters)
until [[ -n $name ]]; do
  number=$((number + 1))
  candidate=$(printf 'play-%02d' "$number")
  taken "$candidate" || name=$candidate
done
dev=$name-dev prod=$name-prod next=$name-next

step=0
title() {
  step=$((step + 1))
  printf '\n%s%d. %s%s\n' "$bold" "$step" "$1" "$plain"
}
say() { printf '%s\n' "$@" | fold -s -w 78 | sed 's/ *$//'; }
go_on() {
  [[ $pause != 0 ]] || return 0
  printf '%s[Enter] continues, Ctrl-C stops and cleans up%s' "$dim" "$plain"
  read -r || exit 130
}

# Prints a command in a form that can be copied, and waits for Enter.
shown() {
  printf '%s\n' "$*" | fold -s -w 74 | sed "1s/^/$cyan\$ /;2,\$s/^/    /;\$!s/ *\$/ \\\\/;\$s/\$/$plain/"
  go_on
}
# fleet ARGUMENT...: our command line, shown and run.
fleet() {
  local word line=flux-resourceset-cli
  for word in "$@"; do
    [[ $word =~ ^[A-Za-z0-9_./:=@,+-]+$ ]] || word="'$word'"
    line+=" $word"
  done
  shown "$line"
  "$cli" "$@" -o table
}

# Prints how the objects of a cluster have changed since the last call.
rendered() { "$cli" render "$1" >"$work/now" 2>/dev/null || : >"$work/now"; }
changed() { # CLUSTER [LINES]
  local cluster=$1 most=${2:-60}
  [[ -e $work/$cluster ]] || : >"$work/$cluster"
  rendered "$cluster"
  printf '%s$ flux-resourceset-cli render %s%s   %s# before and after%s\n' "$cyan" "$cluster" "$plain" "$dim" "$plain"
  diff -U2 "$work/$cluster" "$work/now" | tail -n +3 >"$work/difference" || true
  [[ -s $work/difference ]] || echo "  (the same as before)"
  awk -v most="$most" -v red="$red" -v green="$green" -v cyan="$dim" -v plain="$plain" '
    NR <= most {
      colour = /^-/ ? red : /^\+/ ? green : /^@@/ ? cyan : ""
      line = length($0) > 76 ? substr($0, 1, 75) "…" : $0
      print "  " colour line (colour == "" ? "" : plain)
    }
    END { if (NR > most) print "  … and " NR - most " more lines" }' "$work/difference"
  mv "$work/now" "$work/$cluster"
}

# A poll, with the headers that Flux Operator sends.
poll() { # DNS KIND
  local path=/api/v2/flux/clusters/$1/$2
  # shellcheck disable=SC2016 # the variables are part of the printed command
  printf '%s$ curl --compressed -H "Authorization: Bearer $FLUX_API_TOKEN" \\\n    -H "User-Agent: flux-operator/v0.58.1" -H "Accept: application/json" \\\n"$FLUX_API_URL%s"%s\n' "$cyan" "$path" "$plain"
  go_on
  curl -s --max-time 10 --compressed -o "$work/reply" -w '%{http_code}' -H "Authorization: Bearer $FLUX_API_TOKEN" \
    -H 'User-Agent: flux-operator/v0.58.1' -H 'Accept: application/json' "$FLUX_API_URL$path" >"$work/status"
  printf '  %sHTTP %s%s\n' "$bold" "$(cat "$work/status")" "$plain"
  fold -w 76 "$work/reply" | sed 's/^/  /'
  echo
}
revision() { "$cli" changes --limit 1 -o jsonpath='{.items[-1].revision}'; }

cat <<EOT
${bold}The life of a fleet${plain}, on $FLUX_API_URL. To type along:

  export FLUX_API_URL=$FLUX_API_URL
  export FLUX_API_TOKEN=$FLUX_API_TOKEN FLUX_API_WRITE_TOKEN=$FLUX_API_WRITE_TOKEN
  export PATH=$(dirname "$cli"):\$PATH
EOT

title "A component for the catalog, and a cluster that runs it"
say "A cluster is a record: its identity, and what it runs. No kubeconfig, no push."
fleet component create "$name-web" --component-path podinfo --oci-url https://stefanprodan.github.io/podinfo --oci-tag 6.7.0
fleet namespace create "$name-web" --label team=demo
fleet cluster create "$dev" --cluster-dns "$dev.example.com" --environment dev --label "$label" --label "play=$name" \
  --component "$name-web" --namespace "$name-web"
say "The objects that Flux makes there:"
changed "$dev"

title "The cluster phones home"
say "Every few minutes its ResourceSetInputProvider requests what it should run."
poll "$dev.example.com" platform-components
say "A cluster that the fleet does not know gets an error, and Flux keeps what it has. An empty list would remove everything."
poll "$name-new.example.com" platform-components

title "One cluster gets values that only it has"
fleet component patch "$name-web" --cluster "$dev" --set replicaCount=3 --set ui.color=blue
patched=$(revision)
changed "$dev"

title "A second cluster joins, in production"
fleet cluster create "$prod" --cluster-dns "$prod.example.com" --environment prod --label "$label" --label "play=$name" \
  --component "$name-web" --namespace "$name-web"
joined=$(revision)
rendered "$prod" && mv "$work/now" "$work/$prod"

title "A change for every cluster: first the plan"
say "The catalog moves to a new version. The plan shows the effect on each cluster before anything is changed."
cd "$work"
shown "flux-resourceset-cli export component $name-web -o yaml | sed s/6.7.0/6.7.1/ > change.yaml"
"$cli" export component "$name-web" -o yaml | sed s/6.7.0/6.7.1/ >change.yaml
fleet plan -f change.yaml --out plan.json
say "Nothing has happened yet:"
changed "$dev"

title "The plan is applied: exactly its changes, or none"
fleet apply --plan plan.json --reason "podinfo 6.7.1"
released=$(revision)
changed "$dev"
changed "$prod"

title "It was a mistake: one command undoes it"
fleet undo "$released" --yes --reason "6.7.1 is broken"
changed "$dev"
changed "$prod"

title "Back to what a cluster was before its patch"
fleet rollback --to "$((patched - 1))" --kind cluster --id "$dev" --yes --reason "no patches in dev"
changed "$dev"

title "A cluster gets what its labels say"
say "A profile brings its references to every cluster that its selector matches, also to those that join later."
fleet profile create "$name" --selector "play=$name"
fleet profile add "$name" "component/$name-web" "namespace/$name-web" --dry-run
fleet profile add "$name" "component/$name-web" "namespace/$name-web"
fleet cluster create "$next" --cluster-dns "$next.example.com" --environment qa --label "$label" --label "play=$name"
say "Nothing is written on the new cluster, and it has everything:"
changed "$next"
fleet cluster explain "$next" "namespace/$name-web"

title "Who did what, and why"
log='{range .items[*]}{.revision} {.actor}: {.reason}{"\n"}{end}'
shown "flux-resourceset-cli changes --after $((joined - 1))"
"$cli" changes --after "$((joined - 1))" -o jsonpath="$log"
say "Each line is a revision. One of them in full:"
fleet changes show "$released"

title "A cluster is decommissioned"
fleet cluster delete "$dev" --yes --confirm-removals 1 --reason "end of play"
say "Now the list is empty on purpose: Flux removes everything that it made there."
poll "$dev.example.com" platform-components
changed "$dev" 8

title "Everything else is removed, too"
say "Removing everything that this script created; the fleet is as before."
remove "$name"
name=''
printf '\n%sThe end.%s "make demo-local" shows the same on real clusters.\n' "$bold" "$plain"
