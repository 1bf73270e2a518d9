//! Screenshots for the book and the README: `make screenshots`.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::WRITE;

use crate::browser::{Page, visit};
use crate::fleet::{Fleet, Outcome, id};

const CLUSTERS: usize = 400;
const TIMED_OUT: Outcome = Outcome::Fails(
    "podinfo",
    "UpgradeFailed",
    "Helm upgrade failed for release podinfo/podinfo with chart podinfo@6.7.1: context deadline exceeded",
);
const NO_IMAGE: Outcome = Outcome::Fails(
    "traefik",
    "InstallFailed",
    "Helm install failed for release traefik/traefik with chart traefik@33.2.1: timed out waiting for the condition",
);

/// A fleet on an ordinary day: most of it is well, a rollout is under way, some clusters fail, are silent or are new.
fn ordinary_day() -> Fleet {
    let fleet = Fleet::with(CLUSTERS, |setup| setup.env("SILENT_AFTER", "1m"));
    let admin = fleet.admin();
    let silent: Vec<usize> = (0..CLUSTERS).filter(|n| n % 61 == 7).collect();
    for n in &silent {
        fleet.report(&id(*n), Outcome::Ready);
    }
    // The only wait for a time: silence is time.
    std::thread::sleep(Duration::from_secs(61));
    let heard: Vec<usize> = (0..CLUSTERS).filter(|n| n % 67 != 13 && !silent.contains(n)).collect();
    for n in &heard {
        fleet.report(&id(*n), Outcome::Ready);
    }
    let guard = json!({"id": "prod-small-steps", "selector": "environment=prod", "changes": 250, "reason": "at most 250 clusters of prod at a time"});
    admin.post("/guards", &guard).expect(201);
    fleet.patch("/platform_components/kyverno", &json!({"oci_tag": "3.3.5"}));
    admin.post("/rollouts", &rollout()).expect(201);
    testkit::eventually("the first wave", || {
        admin.get("/rollouts/podinfo-6-7-1/status").json()["wave"] == "canary"
    });
    for n in &heard {
        match n % 29 {
            3 => fleet.report(&id(*n), NO_IMAGE),
            8 => {}
            19 => drop(fleet.poll(&id(*n))),
            _ if n % 12 == 1 && n.is_multiple_of(5) => fleet.report(&id(*n), TIMED_OUT),
            _ => fleet.report(&id(*n), Outcome::Ready),
        }
    }
    fleet
}

fn rollout() -> Value {
    json!({
        "id": "podinfo-6-7-1", "description": "podinfo 6.7.1: fixes the memory leak",
        "operations": [{"op": "merge", "kind": "platform_components", "id": "podinfo", "value": {"oci_tag": "6.7.1"}}],
        "waves": [
            {"name": "canary", "selector": "ring=canary,environment!=prod"}, {"name": "early", "selector": "ring=canary"},
            {"name": "half", "percent": 50, "approve": true}, {"name": "rest", "approve": true},
        ],
        "gate": {"converged": "75%", "failures": 10, "soak": "30m", "silent": "10%"},
    })
}

async fn save(page: &Page, name: &str) {
    let file: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs", "src", "images"]
        .iter()
        .collect();
    std::fs::create_dir_all(&file).unwrap();
    let shot = page.browser.screenshot().await.unwrap();
    std::fs::write(file.join(format!("{name}.png")), shot).unwrap();
}

#[test]
#[ignore = "writes the pictures of the book: make screenshots"]
fn screenshots() {
    let fleet = ordinary_day();
    visit(&fleet.server, async |page| {
        // The page has 1400 by 900, whatever the window's frame takes.
        let size = json!({"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        page.devtools("Emulation.setDeviceMetricsOverride", size).await;
        page.colours("light").await;
        page.sign_in(WRITE, "/ui").await;
        // The counts follow the reports within a second.
        page.wait("counts of a fleet that is well", async || {
            fleet.admin().get("/status?limit=0").json()["counts"]["converged"].as_u64() > Some(300)
        })
        .await;
        page.open("/ui").await;
        page.wait("the map", async || page.count("#map[data-drawn='400']").await == 1)
            .await;
        save(page, "fleet").await;
        for (name, path) in [
            ("problems", "/ui/problems"),
            ("versions", "/ui/versions"),
            ("rollout", "/ui/rollouts/podinfo-6-7-1"),
        ] {
            page.open(path).await;
            save(page, name).await;
        }
        let failing = fleet.admin().get("/status?state=failing&limit=1").json();
        let failing = failing["clusters"][0]["id"].as_str().unwrap().to_owned();
        page.open(&format!("/ui/clusters/{failing}")).await;
        save(page, "cluster").await;
        page.open("/ui/documents/platform_components/traefik").await;
        let text = page.run("return document.getElementById('body').value", vec![]).await;
        page.fill("#body", &text.as_str().unwrap().replace("33.2.1", "34.0.0"))
            .await;
        page.see_in("#check", "Valid.").await;
        page.press("Show the plan").await;
        page.see_in("h1", "Change platform_components/traefik").await;
        save(page, "plan").await;
    });
}
