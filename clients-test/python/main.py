"""One call of each tag, with the generated client."""

import os

import client


def check(tag, ok):
    assert ok, f"{tag}: the reply is not the expected one"
    print(f"  {tag}")


configuration = client.Configuration(host=os.environ["API"], access_token=os.environ["CRUD_AUTH_TOKEN"])
with client.ApiClient(configuration) as api:
    check("service", client.ServiceApi(api).health().status == "ok")
    check("flux", client.FluxApi(api).flux_clusters().inputs[0].id == "demo-cluster-01")
    check("kinds", len(client.KindsApi(api).list_kinds()) >= 4)
    check("clusters", client.ClustersApi(api).get_cluster("demo-cluster-01").id == "demo-cluster-01")
    created = client.NamespacesApi(api).create_namespace(client.Namespace(id="from-python"))
    check("namespaces", created.id == "from-python")
    check("platform_components", len(client.PlatformComponentsApi(api).list_platform_components(limit=1)) == 1)
    check("rolebindings", client.RolebindingsApi(api).list_rolebindings()[0].subjects)
    changes = client.ChangesApi(api).changes(kind="namespaces", id="from-python")
    check("changes", [change.action for change in changes] == ["create"])
