#!/usr/bin/env bash
# Renders every manifest that we ship, all kustomizations, the chart with each of its values files and what `cluster bootstrap` prints,
# and checks them with a dry run on the real API server.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/go.sh
parts=$(e2e/build.sh)
crds=$(e2e/crds.sh)
kustomize=$(scripts/go-tool.sh kustomize)
helm=$(scripts/go-tool.sh helm)
kubernetes=1.36.3 # the version that build.sh builds; helm needs it

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
mkdir "$out/renderings" "$out/overlays"

# build NAME FOLDER: one kustomization.
build() {
  "$kustomize" build "$2" >"$out/renderings/$1.yaml"
}

while IFS= read -r file; do
  folder=$(dirname "$file")
  grep -q '^kind: Component' "$file" || build "${folder//\//-}" "$folder"
done < <(find k8s deploy/kustomize -name kustomization.yaml | sort)

# Manifests that belong together, as one: the demo with its base and its seed, production with autoscaling.
mkdir "$out/overlays/seed" "$out/overlays/autoscaled"
cp data/seed.json "$out/overlays/seed/"
cat >"$out/overlays/seed/kustomization.yaml" <<EOT
namespace: flux-system
generatorOptions: {disableNameSuffixHash: true}
configMapGenerator: [{name: flux-api-seed-data, files: [seed.json]}]
EOT
mv "$out/renderings/k8s-demo.yaml" "$out/demo.yaml"
{ cat "$out/demo.yaml"; echo ---; "$kustomize" build k8s/base; echo ---; "$kustomize" build "$out/overlays/seed"; } \
  >"$out/renderings/k8s-demo-with-base.yaml"
# The Job of the registration, with the identity and the Secret that it reads.
mv "$out/renderings/k8s-registration.yaml" "$out/registration.yaml"
for file in "$out/registration.yaml" k8s/base/cluster-identity.yaml k8s/registration/fleet-join.example.yaml; do
  cat "$file"
  echo ---
done >"$out/renderings/k8s-registration-with-identity.yaml"
repository=$(realpath --relative-to "$out/overlays/autoscaled" .)
# The reporter, without and with the nudge, with the identity that it reads; notifications with their Secret.
mv "$out/renderings/k8s-reporter.yaml" "$out/reporter.yaml"
{ cat "$out/reporter.yaml"; echo ---; cat k8s/base/cluster-identity.yaml; } >"$out/renderings/k8s-reporter-with-identity.yaml"
mkdir "$out/overlays/nudge"
cat >"$out/overlays/nudge/kustomization.yaml" <<EOT
resources: [$repository/k8s/reporter, identity.yaml]
components: [$repository/k8s/reporter/nudge]
EOT
cp k8s/base/cluster-identity.yaml "$out/overlays/nudge/identity.yaml"
build k8s-reporter-nudge "$out/overlays/nudge"
grep -q NUDGE "$out/renderings/k8s-reporter-nudge.yaml" || { echo "the component of the nudge changes nothing" >&2; exit 1; }
cp k8s/notifications/notifications.example.yaml "$out/renderings/k8s-notifications-secret.yaml"
cat >"$out/overlays/autoscaled/kustomization.yaml" <<EOT
resources: [$repository/deploy/kustomize/production]
components: [$repository/deploy/kustomize/autoscaling]
EOT
build deploy-kustomize-production-autoscaled "$out/overlays/autoscaled"
# Every component on the store that it is for.
for store in sqlite postgres; do
  mkdir "$out/overlays/$store"
  cp k8s/resourcesets/namespaces.yaml "$out/overlays/$store/templates.yaml"
  cp resources/namespace.yaml "$out/overlays/$store/kinds.yaml"
  echo 'certificates, as PEM' >"$out/overlays/$store/ca.crt"
  base=base
  [[ $store == postgres ]] && base=production
  cat >"$out/overlays/$store/kustomization.yaml" <<EOT
resources: [$repository/deploy/kustomize/$base]
components:
  - $repository/deploy/kustomize/maintenance/$store
  - $repository/deploy/kustomize/kinds
  - $repository/deploy/kustomize/templates
  - $repository/deploy/kustomize/tls
  - $repository/deploy/kustomize/client-ca
configMapGenerator:
  - {name: flux-api-client-ca, namespace: flux-resourceset, files: [ca.crt], options: {disableNameSuffixHash: true}}
  - {name: flux-api-kinds, namespace: flux-resourceset, files: [kinds.yaml]}
  - {name: flux-api-templates, namespace: flux-resourceset, files: [templates.yaml], options: {disableNameSuffixHash: true}}
EOT
  build "deploy-kustomize-$base-complete" "$out/overlays/$store"
done
cp deploy/kustomize/base/secret.example.yaml "$out/renderings/deploy-secret-tokens.yaml"
cp deploy/kustomize/production/secret.example.yaml "$out/renderings/deploy-secret-database.yaml"

chart=deploy/chart/flux-resourceset
for values in "$chart"/ci/*.yaml; do
  name=$(basename "$values" -values.yaml)
  "$helm" lint --quiet --strict --kube-version "$kubernetes" --values "$values" "$chart"
  "$helm" template api "$chart" --namespace flux-resourceset --kube-version "$kubernetes" --values "$values" \
    >"$out/renderings/chart-$name.yaml"
done

# refuses WORDS ARGUMENTS...: the chart must refuse the arguments, with an error that contains WORDS.
refuses() {
  local words=$1 said
  shift
  if said=$("$helm" template api "$chart" --kube-version "$kubernetes" "$@" 2>&1); then
    echo "the chart accepts $*, which it must refuse" >&2
    exit 1
  fi
  grep -qF -- "$words" <<<"$said" || { printf 'the chart refuses %s without saying "%s":\n%s\n' "$*" "$words" "$said" >&2; exit 1; }
}
tokens=(--set "tokens.read=a,tokens.write=b")
refuses "tokens.read is required"
refuses "tokens.write is required" --set tokens.read=a
refuses "every cluster could write" --set tokens.read=a,tokens.write=a
refuses "3 pods would share it" "${tokens[@]}" --set store.sqlite.shareNode=false
refuses "2 pods would share it" "${tokens[@]}" --set store.sqlite.shareNode=false,read.enabled=false,crud.replicas=2
refuses "needs store.postgres.existingSecret" "${tokens[@]}" --set store.backend=postgres
refuses "leaves nothing for ingress.read" "${tokens[@]}" --set read.enabled=false,ingress.read.enabled=true,ingress.read.host=a.example.com
refuses "prometheusRule needs serviceMonitor.enabled=true" "${tokens[@]}" --set prometheusRule.enabled=true
refuses "tls.clientCA needs tls.existingSecret" "${tokens[@]}" --set tls.clientCA.existingSecret=a
refuses "not both" "${tokens[@]}" --set tls.existingSecret=a,tls.clientCA.existingSecret=a,tls.clientCA.existingConfigMap=a
refuses "additional properties 'replicas' not allowed" "${tokens[@]}" --set replicas=3

# What `cluster bootstrap` prints.
scripts/debian.sh openssl
cargo build --quiet --release --package flux-resourceset --package flux-resourceset-cli --package e2e
built=$(realpath "${CARGO_TARGET_DIR:-target}/release")
SERVER=$built/flux-resourceset scripts/with-server.sh e2e/bootstraps.sh "$built/flux-resourceset-cli" "$out/renderings"

"$built/e2e" manifests --parts "$parts" --crds "$crds" "$out/renderings"
