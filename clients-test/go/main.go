// One call of each tag, with the generated client.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"clients/client"
)

func check(tag string, err error, ok bool) {
	if err != nil {
		log.Fatalf("%s: %v", tag, err)
	}
	if !ok {
		log.Fatalf("%s: the reply is not the expected one", tag)
	}
	fmt.Println("  " + tag)
}

func main() {
	configuration := client.NewConfiguration()
	configuration.Servers = client.ServerConfigurations{{URL: os.Getenv("API")}}
	configuration.AddDefaultHeader("Authorization", "Bearer "+os.Getenv("CRUD_AUTH_TOKEN"))
	api := client.NewAPIClient(configuration)
	ctx := context.Background()

	health, _, err := api.ServiceAPI.Health(ctx).Execute()
	check("service", err, err == nil && health.Status == "ok")
	list, _, err := api.FluxAPI.FluxClusters(ctx).Execute()
	check("flux", err, err == nil && list.Inputs[0].Id == "demo-cluster-01")
	kinds, _, err := api.KindsAPI.ListKinds(ctx).Execute()
	check("kinds", err, err == nil && len(kinds) >= 4)
	cluster, _, err := api.ClustersAPI.GetCluster(ctx, "demo-cluster-01").Execute()
	check("clusters", err, err == nil && cluster.Id == "demo-cluster-01")
	created, _, err := api.NamespacesAPI.CreateNamespace(ctx).Namespace(*client.NewNamespace("from-go")).Execute()
	check("namespaces", err, err == nil && created.Namespace != nil && created.Namespace.Id == "from-go")
	components, _, err := api.PlatformComponentsAPI.ListPlatformComponents(ctx).Limit(1).Execute()
	check("platform_components", err, err == nil && len(components) == 1)
	bindings, _, err := api.RolebindingsAPI.ListRolebindings(ctx).Execute()
	check("rolebindings", err, err == nil && len(bindings) > 0 && len(bindings[0].Subjects) > 0)
	changes, _, err := api.ChangesAPI.Changes(ctx).Kind("namespaces").Id("from-go").Execute()
	check("changes", err, err == nil && len(changes) == 1 && changes[0].Action == "create")
}
