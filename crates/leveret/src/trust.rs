//! TLS to a node's HTTP API: whom the command line believes to be the node.

use leveret_perf::transport::AnyCertificate;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where systems keep the authorities that they trust.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Whose word is taken for who a node is.
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

/// Speaks TLS on a connection to `host`.
///
/// # Errors
/// If the file of authorities cannot be read, or `host` is no name that a certificate can have. A
/// certificate that is not believed is an error of the first write.
pub fn begin(
    stream: TcpStream,
    host: &str,
    trust: &Trust,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let config = match trust {
        Trust::Anybody => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate::new(provider))),
        Trust::System => builder.with_root_certificates(authorities(&system_file()?)?),
        Trust::File(path) => builder.with_root_certificates(authorities(path)?),
    };
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(name.to_owned()).map_err(|_| {
        let text = format!("'{host}' is no name that a certificate can have");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })?;
    let session = ClientConnection::new(Arc::new(config.with_no_client_auth()), name);
    Ok(StreamOwned::new(session.map_err(io::Error::other)?, stream))
}

fn system_file() -> io::Result<PathBuf> {
    let given = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let known = SYSTEM_FILES.iter().map(PathBuf::from);
    let found = given.or_else(|| known.into_iter().find(|path| path.exists()));
    found.ok_or_else(|| {
        let text = "this system has no file of authorities: name one with --ca-file";
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
