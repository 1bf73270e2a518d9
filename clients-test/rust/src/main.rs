//! One call of each tag, with the generated client.

use client::apis::configuration::Configuration;
use client::apis::{
    changes_api, clusters_api, flux_api, kinds_api, namespaces_api, platform_components_api, rolebindings_api,
    service_api,
};
use client::models::{CreateNamespace200Response, Namespace};

fn check(tag: &str, ok: bool) {
    assert!(ok, "{tag}: the reply is not the expected one");
    println!("  {tag}");
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = &Configuration {
        base_path: std::env::var("API")?,
        bearer_access_token: Some(std::env::var("CRUD_AUTH_TOKEN")?),
        ..Configuration::default()
    };
    check("service", service_api::health(api).await?.status == "ok");
    let list = flux_api::flux_clusters(api, None, None, None).await?;
    check("flux", list.inputs[0].id == "demo-cluster-01");
    check("kinds", kinds_api::list_kinds(api).await?.len() >= 4);
    let cluster = clusters_api::get_cluster(api, "demo-cluster-01", None).await?;
    check("clusters", cluster.id == "demo-cluster-01");
    let new = Namespace::new("from-rust".to_owned());
    let created = namespaces_api::create_namespace(api, new, None, None, None, None).await?;
    let is_ours = matches!(&created, CreateNamespace200Response::Namespace(one) if one.id == "from-rust");
    check("namespaces", is_ours);
    let components = platform_components_api::list_platform_components(api, Some(1), None, None, None, None).await?;
    check("platform_components", components.len() == 1);
    let bindings = rolebindings_api::list_rolebindings(api, None, None, None).await?;
    check("rolebindings", !bindings[0].subjects.is_empty());
    let changes = changes_api::changes(api, None, None, Some("namespaces"), Some("from-rust"), None).await?;
    check("changes", changes.len() == 1);
    Ok(())
}
