//! Charts and artifacts, made here and served on loopback: a Helm repository of files, and an OCI registry. As nothing runs pods,
//! every chart is cast from the example's own, which holds a ConfigMap that says what Helm was given.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use ureq::Agent;

use crate::cluster::Parts;
use crate::process::{Process, free_address};
use crate::signing::Key;
use crate::{Result, wait};

/// Files by path, ready to be packed.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const CHART_CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const FLUX: &str = "application/vnd.cncf.flux.content.v1.tar+gzip";
const FLUX_CONFIG: &str = "application/vnd.cncf.flux.config.v1+json";
const IMAGE_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const SIGNATURE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

#[derive(Debug)]
pub(crate) struct Artifacts {
    process: Process,
    address: String,
    folder: PathBuf,
    /// The charts of each Helm repository by folder, then by name. The main one is at the top, its folder is "".
    indexes: BTreeMap<String, BTreeMap<String, Vec<Value>>>,
    /// The files of the chart that all others are like.
    mould: Files,
    agent: Agent,
}

impl Artifacts {
    /// `mould` is the folder of the chart that all others are like.
    pub(crate) fn start(parts: &Parts, mould: &Path, work: &Path, logs: &Path) -> Result<Artifacts> {
        let (folder, address) = (work.join("charts"), free_address()?);
        fs::create_dir_all(&folder)?;
        let mut command = parts.command("kube");
        command.arg("charts").arg(&folder).arg(&address);
        let process = Process::start("charts", &mut command, logs)?;
        let agent = Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(10)))
            .build()
            .new_agent();
        wait::until("the registry", || {
            agent.get(format!("http://{address}/v2/")).call()?;
            Ok(())
        })?;
        Ok(Artifacts {
            process,
            address,
            folder,
            indexes: BTreeMap::new(),
            mould: read_folder(mould)?,
            agent,
        })
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// The host and port of all of it.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The address of the Helm repository.
    pub(crate) fn charts(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address of another Helm repository.
    pub(crate) fn charts_in(&self, folder: &str) -> String {
        format!("http://{}/{folder}", self.address)
    }

    /// The address of a repository in the OCI registry.
    pub(crate) fn oci(&self, repository: &str) -> String {
        format!("oci://{}/{repository}", self.address)
    }

    /// Publishes a chart in the Helm repository.
    pub(crate) fn chart(&mut self, name: &str, version: &str) -> Result<()> {
        self.chart_in("", name, version)
    }

    /// Publishes a chart in another Helm repository.
    pub(crate) fn chart_in(&mut self, folder: &str, name: &str, version: &str) -> Result<()> {
        self.chart_with(folder, name, version, &Files::new())
    }

    /// Publishes a chart that has more files.
    pub(crate) fn chart_with(&mut self, folder: &str, name: &str, version: &str, more: &Files) -> Result<()> {
        let packed = self.cast(name, version, more)?;
        let (file, place) = (format!("{name}-{version}.tgz"), self.folder.join(folder));
        fs::create_dir_all(&place)?;
        fs::write(place.join(&file), &packed)?;
        let entry =
            json!({"apiVersion": "v2", "name": name, "version": version, "urls": [file], "digest": sha256(&packed)});
        let index = self.indexes.entry(folder.to_owned()).or_default();
        index.entry(name.to_owned()).or_default().push(entry);
        let index = json!({"apiVersion": "v1", "entries": index});
        fs::write(place.join("index.yaml"), index.to_string())?;
        Ok(())
    }

    /// Publishes a chart in the OCI registry, as `helm push` does: in a repository of its own within another. Returns its digest.
    pub(crate) fn oci_chart(&self, charts: &str, name: &str, version: &str) -> Result<String> {
        let config = json!({"apiVersion": "v2", "name": name, "version": version}).to_string();
        self.push(
            &format!("{charts}/{name}"),
            version,
            (CHART_CONFIG, config.as_bytes()),
            (CHART, &self.cast(name, version, &Files::new())?),
            &json!({}),
        )
    }

    /// Publishes the signature of a manifest, as `cosign sign` does.
    pub(crate) fn sign(&self, repository: &str, digest: &str, key: &Key) -> Result<()> {
        let (payload, signature) = key.sign(digest)?;
        let layers = json!({"type": "layers", "diff_ids": [format!("sha256:{}", sha256(payload.as_bytes()))]});
        let config = json!({"architecture": "", "os": "", "config": {}, "rootfs": layers}).to_string();
        let annotations = json!({"dev.cosignproject.cosign/signature": signature});
        let tag = format!("{}.sig", digest.replace(':', "-"));
        let layer = (SIGNATURE, payload.as_bytes());
        self.push(repository, &tag, (IMAGE_CONFIG, config.as_bytes()), layer, &annotations)?;
        Ok(())
    }

    /// A chart like the mould, under another name, with more files.
    fn cast(&self, name: &str, version: &str, more: &Files) -> Result<Vec<u8>> {
        let mut files: Files = self
            .mould
            .iter()
            .chain(more)
            .map(|(path, bytes)| (format!("{name}/{path}"), bytes.clone()))
            .collect();
        let about = json!({"apiVersion": "v2", "name": name, "version": version, "type": "application"});
        files.insert(format!("{name}/Chart.yaml"), about.to_string().into_bytes());
        pack(&files)
    }

    /// Publishes files as `flux push artifact` does.
    pub(crate) fn oci_files(&self, repository: &str, tag: &str, files: &Files) -> Result<()> {
        self.push(repository, tag, (FLUX_CONFIG, b"{}"), (FLUX, &pack(files)?), &json!({}))?;
        Ok(())
    }

    /// Publishes a manifest with one layer, which has these annotations. Returns its digest.
    fn push(
        &self,
        repository: &str,
        tag: &str,
        config: (&str, &[u8]),
        layer: (&str, &[u8]),
        annotations: &Value,
    ) -> Result<String> {
        let base = format!("http://{}/v2/{repository}", self.address);
        let mut described = Vec::new();
        for (media, bytes) in [config, layer] {
            let digest = format!("sha256:{}", sha256(bytes));
            self.agent
                .post(format!("{base}/blobs/uploads/?digest={digest}"))
                .header("Content-Type", "application/octet-stream")
                .send(bytes)?;
            described.push(json!({"mediaType": media, "digest": digest, "size": bytes.len()}));
        }
        described[1]["annotations"] = annotations.clone();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": described[0],
            "layers": [described[1]],
            "annotations": {"org.opencontainers.image.revision": tag, "org.opencontainers.image.source": repository},
        });
        self.agent
            .put(format!("{base}/manifests/{tag}"))
            .header("Content-Type", MANIFEST)
            .send(manifest.to_string())?;
        Ok(format!("sha256:{}", sha256(manifest.to_string().as_bytes())))
    }
}

/// Every file below a folder.
pub(crate) fn read_folder(folder: &Path) -> Result<Files> {
    let mut files = Files::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).map_err(|error| format!("{}: {error}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder)?.to_string_lossy().into_owned();
                files.insert(name, fs::read(&path)?);
            }
        }
    }
    Ok(files)
}

fn pack(files: &Files) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, bytes.as_slice())?;
    }
    Ok(archive.into_inner()?.finish()?)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::{Files, pack, sha256};

    #[test]
    fn what_is_packed_can_be_unpacked() {
        let files = Files::from([
            ("a/b.yaml".to_owned(), b"one".to_vec()),
            ("c.yaml".to_owned(), b"two".to_vec()),
        ]);
        let packed = pack(&files).expect("it packs");
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        let mut found = Files::new();
        for entry in archive.entries().expect("it is an archive") {
            let mut entry = entry.expect("an entry");
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("its bytes");
            found.insert(entry.path().expect("its path").display().to_string(), bytes);
        }
        assert_eq!(found, files);
    }

    #[test]
    fn digests_are_written_as_registries_want_them() {
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
