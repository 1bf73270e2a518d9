//! Profiles on the command line: what they bring, where values come from, exceptions, and proposals.

use crate::fixture::World;
use crate::transcript;

const PROFILES: &str = "\
kind: profiles
id: baseline
selector: environment=prod
platform_components: [{id: cert-manager}, {id: podinfo}]
---
kind: profiles
id: canary
selector: ring=canary
priority: 10
platform_components: [{id: podinfo, oci_tag: 6.8.0}]
";

/// A fleet with two profiles and two production clusters that have nothing of their own.
fn world() -> World {
    let world = World::fleet();
    world.file("profiles.yaml", PROFILES);
    let clusters = "for n in 1 2; do flux-resourceset-cli cluster create store-$n --cluster-dns store-$n.example.com \
                    --environment prod >/dev/null; done; flux-resourceset-cli cluster label store-1 ring=canary >/dev/null; \
                    flux-resourceset-cli apply -f profiles.yaml >/dev/null";
    assert_eq!(world.sh(clusters).code, 0);
    world
}

#[test]
fn a_profile_is_written_like_every_resource() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli profile create edge --selector region=edge --priority -5 --description 'small ones' -o table",
        "flux-resourceset-cli profile add edge component/podinfo component/traefik --set enabled=false -o table",
        "flux-resourceset-cli profile add edge namespace/podinfo component/podinfo -o table",
        "flux-resourceset-cli profile add edge component/podinfo --set oci_tag=6.7.1 --dry-run -o table",
        "flux-resourceset-cli profile add edge component/podinfo --set oci_tagg=6.7.1",
        "flux-resourceset-cli profile add edge podinfo",
        "flux-resourceset-cli profile add edge cluster/dev-1",
        "flux-resourceset-cli profile add edge component/nothing",
        "flux-resourceset-cli profile add nobody component/podinfo",
        "flux-resourceset-cli profile create bad --selector ''",
        "flux-resourceset-cli profile create bad --selector '!nowhere'",
        "flux-resourceset-cli profile remove edge namespace/podinfo -o table",
        "flux-resourceset-cli profile list -o table",
        "flux-resourceset-cli profile get edge -o yaml",
        "flux-resourceset-cli profile update edge --priority 7 --dry-run -o table",
        "EDITOR='sed -i s/small/tiny/' flux-resourceset-cli profile edit edge -o name",
        "flux-resourceset-cli profile history edge -o jsonpath='{[*].revision}'",
        "flux-resourceset-cli profile describe edge",
        "flux-resourceset-cli component delete podinfo --dry-run",
        "flux-resourceset-cli profile delete edge -o table",
    );
}

#[test]
fn clusters_show_what_profiles_bring_and_where_it_comes_from() {
    transcript!(
        world(),
        "flux-resourceset-cli component where podinfo -l environment=prod -o table",
        "flux-resourceset-cli component pins podinfo -o table",
        "flux-resourceset-cli cluster explain store-1 component/podinfo -o table",
        "flux-resourceset-cli cluster explain store-1 components/cert-manager -o jsonpath='{.inputs.platform-components[0].id}'",
        "flux-resourceset-cli cluster explain store-1 component/traefik",
        "flux-resourceset-cli cluster explain store-1 nothing",
        "flux-resourceset-cli cluster explain nobody",
        "flux-resourceset-cli cluster explain store-1 --revision 1",
        "flux-resourceset-cli cluster label store-1 ring=none --overwrite --dry-run -o table",
    );
}

#[test]
fn exceptions_are_made_on_a_cluster() {
    transcript!(
        world(),
        "flux-resourceset-cli component override podinfo --cluster store-2 --oci-tag 6.6.0 -o table",
        "flux-resourceset-cli component disable cert-manager --cluster store-2 -o table",
        "flux-resourceset-cli cluster get store-2 -o jsonpath='{.platform_components}'",
        "flux-resourceset-cli component unpin podinfo --cluster store-2 -o table",
        "flux-resourceset-cli component exclude podinfo --cluster store-2 -o table",
        "flux-resourceset-cli inputs store-2 components -o jsonpath='{.inputs[*].id}'",
        "flux-resourceset-cli component override podinfo --cluster store-2 --oci-tag 6.6.0",
        "flux-resourceset-cli component assign podinfo --cluster store-2 -o table",
        "flux-resourceset-cli inputs store-2 components -o jsonpath='{.inputs[*].id}'",
        "flux-resourceset-cli component exclude traefik --cluster store-2 -o name",
        "flux-resourceset-cli namespace exclude podinfo --cluster store-2 --dry-run -o table",
        "flux-resourceset-cli rolebinding exclude dev-readers --cluster store-2 --dry-run -o table",
        "flux-resourceset-cli cluster diagnostics store-2 -o table",
    );
}

#[test]
fn a_profile_is_proposed_from_clusters_and_changes_no_reply() {
    transcript!(
        World::fleet(),
        "flux-resourceset-cli profile from-clusters -l environment=dev",
        "flux-resourceset-cli profile from-clusters -l environment=dev 2>/dev/null | flux-resourceset-cli plan -f - -o table",
        "flux-resourceset-cli profile from-clusters -l environment=dev 2>/dev/null | flux-resourceset-cli apply -f - -o table",
        "flux-resourceset-cli profile from-clusters -l environment=dev",
        "flux-resourceset-cli profile from-clusters -l environment=dev --id again",
        "flux-resourceset-cli profile from-clusters -l ''",
    );
}
