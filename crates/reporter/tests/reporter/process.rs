//! The program: settings, signals, exit codes.

use std::process::{Command, Stdio};

use crate::world::{DNS, World, eventually};

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flux-resourceset-reporter"));
    command.env_clear();
    command
}

#[test]
fn what_is_wrong_is_told_at_once() {
    let output = program().env("FULL_EVERY", "soon").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    for variable in ["FLUX_API_URL", "CLUSTER_DNS", "FULL_EVERY"] {
        assert!(said.contains(&format!("error: {variable}: ")), "{said}");
    }

    let output = program().arg("--no-such-flag").output().unwrap();
    assert_eq!(output.status.code(), Some(2));

    let settings = ["--url", "https://fleet.example.com", "--dns", DNS];
    let output = program().args(settings).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("error: there is no way to Kubernetes"), "{said}");
}

#[tokio::test]
async fn a_file_that_is_named_must_be_usable() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new().await;
    std::fs::write(folder.path().join("empty"), "").unwrap();
    for (flag, file, expected) in [
        ("--certificate-authority", "missing", "missing: No such file"),
        (
            "--certificate-authority",
            "empty",
            "empty: contains no certificate in PEM format",
        ),
    ] {
        let mut command = program();
        command
            .env("KUBECONFIG", world.kubeconfig(folder.path()))
            .args(["--url", "https://fleet.example.com", "--dns", DNS, "--token", "a"])
            .arg(flag)
            .arg(folder.path().join(file));
        let output = tokio::task::spawn_blocking(move || command.output().unwrap())
            .await
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn every_setting_has_a_flag_and_a_variable() {
    let output = program().arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let options = help.split("Options:").nth(1).unwrap();
    let flags = options.matches("\n      --").count();
    assert_eq!(options.matches("[env: ").count(), flags, "{help}");
    assert!(help.contains("Exit codes:"), "{help}");
}

#[tokio::test]
async fn a_process_reports_and_stops_at_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new().await;
    std::fs::write(folder.path().join("token"), "secret").unwrap();
    let mut process = program()
        .env("KUBECONFIG", world.kubeconfig(folder.path()))
        .env("FLUX_API_URL", world.fleet.url())
        .env("CLUSTER_DNS", DNS)
        .env("FLUX_API_TOKEN_FILE", folder.path().join("token"))
        .env("LOG_FORMAT", "json")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (_, first) = world.fleet.report_after(0, |_| true).await;
    assert!(first.is_full());
    assert_eq!(first.token, "Bearer secret");
    let id = process.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let ended = std::cell::Cell::new(None);
    let process_cell = std::cell::RefCell::new(&mut process);
    eventually("the process ends", || {
        ended.set(process_cell.borrow_mut().try_wait().unwrap());
        ended.get().is_some()
    })
    .await;
    assert_eq!(ended.get().unwrap().code(), Some(0));
    let mut said = String::new();
    std::io::Read::read_to_string(process.stderr.as_mut().unwrap(), &mut said).unwrap();
    let last: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["message"], &last["signal"]),
        (&"stopped".into(), &"SIGTERM".into()),
        "{said}"
    );
    // The namespace is that of the context, as no other was given.
    assert!(said.contains("\"namespaces\":\"flux-system\""), "{said}");
}
