// One call of each tag, with the generated client.
import {
  ChangesApi,
  ClustersApi,
  Configuration,
  FluxApi,
  KindsApi,
  NamespacesApi,
  PlatformComponentsApi,
  RolebindingsApi,
  ServiceApi,
} from "./client";

declare const process: { env: Record<string, string>; exit(status: number): void };

function check(tag: string, ok: boolean): void {
  if (!ok) throw new Error(`${tag}: the reply is not the expected one`);
  console.log(`  ${tag}`);
}

async function main(): Promise<void> {
  const configuration = new Configuration({ basePath: process.env.API, accessToken: process.env.CRUD_AUTH_TOKEN });
  check("service", (await new ServiceApi(configuration).health()).status === "ok");
  check("flux", (await new FluxApi(configuration).fluxClusters()).inputs[0].id === "demo-cluster-01");
  check("kinds", (await new KindsApi(configuration).listKinds()).length >= 4);
  const cluster = await new ClustersApi(configuration).getCluster({ id: "demo-cluster-01" });
  check("clusters", cluster.id === "demo-cluster-01");
  const created = await new NamespacesApi(configuration).createNamespace({ namespace: { id: "from-typescript" } });
  check("namespaces", "id" in created && created.id === "from-typescript");
  const components = await new PlatformComponentsApi(configuration).listPlatformComponents({ limit: 1 });
  check("platform_components", components.length === 1);
  const bindings = await new RolebindingsApi(configuration).listRolebindings();
  check("rolebindings", bindings[0].subjects.length > 0);
  const changes = await new ChangesApi(configuration).changes({ kind: "namespaces", id: "from-typescript" });
  check("changes", changes.length === 1 && changes[0].action === "create");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
