//! The certificates of the story: an authority of our own, the server's certificate, and one of a cluster.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::Result;

/// An authority, and the folder with what it has signed: `NAME.pem` and `NAME.key`.
#[derive(Debug)]
pub(crate) struct Certificates {
    authority: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Certificates {
    pub(crate) fn new(folder: &Path) -> Result<Certificates> {
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "authority of the fleet");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        fs::create_dir_all(folder)?;
        fs::write(folder.join("ca.pem"), authority.pem())?;
        let folder = folder.canonicalize()?;
        Ok(Certificates { authority, folder })
    }

    /// The authority's own certificate.
    pub(crate) fn authority(&self) -> String {
        self.authority.pem()
    }

    /// The file with the authority's own certificate.
    pub(crate) fn authority_file(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Signs a certificate for a DNS name or an address, and returns the files of the certificate and of its key.
    pub(crate) fn sign(&self, name: &str) -> Result<(PathBuf, PathBuf)> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.authority)?;
        let (path, key_path) = (
            self.folder.join(format!("{name}.pem")),
            self.folder.join(format!("{name}.key")),
        );
        fs::write(&path, certificate.pem())?;
        fs::write(&key_path, key.serialize_pem())?;
        Ok((path, key_path))
    }
}
