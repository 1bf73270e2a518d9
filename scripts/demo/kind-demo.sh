#!/usr/bin/env bash
# Deploys the whole loop on the cluster of kind-create.sh, with the image of docker-build.sh: Flux, the API with the demo
# fleet, and what `cluster bootstrap` prints for a cluster that polls it. The API and the polling cluster are the same cluster.
source "$(dirname "$0")/lib.sh"
need docker kind kubectl cargo curl
bootstrapped=demo-cluster-01
operator=https://github.com/controlplaneio-fluxcd/flux-operator/releases/download/v0.58.1/install.yaml
trap finish EXIT

step "building the command line"
build_cli

step "looking for the cluster"
cluster_exists || { echo "demo: there is no kind cluster $cluster: make kind-create" >&2; exit 1; }

step "loading the image $image"
kind load docker-image "$image" --name "$cluster"

step "installing the Flux Operator"
kube apply --server-side --filename "$operator"
await 300 "the operator" kube --namespace "$namespace" rollout status deployment/flux-operator --timeout=1s

step "applying the base: Flux, Services"
kube apply --kustomize k8s/base
await 600 "Flux' controllers" is_ready fluxinstance/flux

step "seeding: ConfigMap flux-api-seed-data from data/seed.json"
kube --namespace "$namespace" create configmap flux-api-seed-data --from-file=data/seed.json --dry-run=client --output=yaml |
  kube apply --server-side --filename -

step "deploying the API"
kube apply --kustomize k8s/demo
# The image may have changed under the same name.
kube --namespace "$namespace" rollout restart deployment/flux-api-read deployment/flux-api-crud
for deployment in flux-api-crud flux-api-read; do
  await 180 "$deployment" kube --namespace "$namespace" rollout status "deployment/$deployment" --timeout=1s
done

step "bootstrapping $bootstrapped: identity, a token of its own, providers, ResourceSets"
reach_api
# Tokens of an earlier run, if there was one.
if "$cli" identity get "cluster:$bootstrapped" >/dev/null 2>&1; then
  "$cli" identity delete "cluster:$bootstrapped" --yes
fi
"$cli" cluster bootstrap "$bootstrapped" --url "http://flux-api-read.$namespace.svc.cluster.local:8080" --interval 30s |
  kube apply --filename -
# Added to every input: the template uses it as the interval of releases, in place of 10m.
kube --namespace "$namespace" patch resourcesetinputprovider platform-components --type merge \
  --patch '{"spec": {"defaultValues": {"interval": "1m"}}}'
for kind in namespaces platform-components rolebindings; do
  await 180 "the first poll of $kind" is_ready "resourcesetinputprovider/$kind"
  await 180 "the ResourceSet $kind" is_ready "resourceset/$kind"
done

cat <<EOT

The loop works: the cluster polls flux-api-read every 30 s and applies the reply. Look at it:

  kubectl --context $context -n $namespace get pods
  kubectl --context $context -n $namespace get resourcesetinputproviders,resourcesets,helmreleases
  kubectl --context $context get namespaces
  kubectl --context $context get clusterrolebindings platform-admins dev-readers

Then:
  make cli-demo                # add a namespace with the command line
  make cli-demo-port-forward   # the API on $api, for your own commands
  make kind-delete             # delete the cluster
EOT
