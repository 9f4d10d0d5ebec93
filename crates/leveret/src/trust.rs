//! TLS as a client: whom the command line believes to be a node, and a node to be its collector of
//! traces.

use leveret_perf::transport::AnyCertificate;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where systems keep the authorities that they trust.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Whose word is taken for who a server is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The authorities that this system trusts, or those of the file `SSL_CERT_FILE`.
    #[default]
    System,
    /// The authorities of this file (PEM).
    File(PathBuf),
    /// Nobody's: whoever answers is believed. What is said can be read by whoever is in between.
    Anybody,
}

impl Trust {
    /// How TLS is spoken with whom it believes.
    ///
    /// # Errors
    /// If the file of authorities cannot be read, or has none.
    pub fn client(&self) -> io::Result<Arc<ClientConfig>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let config = match self {
            Self::Anybody => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate::new(provider))),
            Self::System => builder.with_root_certificates(authorities(&system_file()?)?),
            Self::File(path) => builder.with_root_certificates(authorities(path)?),
        };
        Ok(Arc::new(config.with_no_client_auth()))
    }
}

fn system_file() -> io::Result<PathBuf> {
    let given = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let known = SYSTEM_FILES.iter().map(PathBuf::from);
    let found = given.or_else(|| known.into_iter().find(|path| path.exists()));
    found.ok_or_else(|| {
        let text = "this system has no file of authorities: name one with --ca-file (a node: `traces.cacertfile`)";
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

fn authorities(path: &Path) -> io::Result<RootCertStore> {
    let bad = |reason: String| {
        let text = format!("cannot read authorities from {}: {reason}", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        // A system's file may have some that nobody can use.
        let _ = roots.add(certificate);
    }
    match roots.is_empty() {
        true => Err(bad("there is none that can be used".to_owned())),
        false => Ok(roots),
    }
}
