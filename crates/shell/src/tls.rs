//! TLS settings from files, and the name in a client's certificate.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the certificates of a listener are, and what is asked of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// PEM: the node's certificate, then those that vouch for it.
    pub certificate: PathBuf,
    /// PEM: the key of the node's certificate.
    pub key: PathBuf,
    /// PEM: who may vouch for clients' certificates.
    pub authorities: Option<PathBuf>,
    /// Ask clients for a certificate, and check the one that they show.
    pub verify_peer: bool,
    /// Refuse clients that show none.
    pub require_peer_certificate: bool,
    /// Versions that are spoken: `tlsv1.2`, `tlsv1.3`.
    pub versions: Vec<String>,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or holds something else.
    #[error("cannot read {what} from {}: {reason}", path.display())]
    File {
        /// What was looked for.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The settings contradict each other, or name what does not exist.
    #[error("{0}")]
    Settings(String),
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// Which file cannot be used and why, or what in the settings does not fit.
    pub fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let chain = certificates(&self.certificate, "a certificate")?;
        let key = private_key(&self.key)?;
        let versions = self.protocol_versions()?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(|error| TlsError::Settings(error.to_string()))?;
        let builder = if self.verify_peer {
            let Some(path) = &self.authorities else {
                return Err(TlsError::Settings(
                    "ssl_options.verify is verify_peer, but ssl_options.cacertfile is not set"
                        .to_owned(),
                ));
            };
            let roots = Arc::new(authorities(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            let verifier = if self.require_peer_certificate {
                verifier
            } else {
                verifier.allow_unauthenticated()
            };
            let verifier = verifier
                .build()
                .map_err(|error| TlsError::Settings(error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let config = builder
            .with_single_cert(chain, key)
            .map_err(|error| mismatch(&self.key, &self.certificate, &error))?;
        Ok(Arc::new(config))
    }

    fn protocol_versions(&self) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
        let known = |name: &String| match name.as_str() {
            "tlsv1.2" => Ok(&rustls::version::TLS12),
            "tlsv1.3" => Ok(&rustls::version::TLS13),
            other => Err(TlsError::Settings(format!(
                "TLS version '{other}' is not supported; tlsv1.2 and tlsv1.3 are"
            ))),
        };
        if self.versions.is_empty() {
            return Ok(vec![&rustls::version::TLS12, &rustls::version::TLS13]);
        }
        self.versions.iter().map(known).collect()
    }
}

/// The private key in a file.
pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| TlsError::File {
        what: "a private key",
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// Who may vouch for others, as a file says.
pub(crate) fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    const WHAT: &str = "a CA certificate";
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, WHAT)? {
        roots.add(certificate).map_err(|error| TlsError::File {
            what: WHAT,
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
    }
    Ok(roots)
}

/// A key is another certificate's.
pub(crate) fn mismatch(key: &Path, certificate: &Path, error: &rustls::Error) -> TlsError {
    TlsError::Settings(format!(
        "the key in {} does not go with the certificate in {}: {error}",
        key.display(),
        certificate.display(),
    ))
}

/// The certificates in a file, in their order; at least one.
pub(crate) fn certificates(
    path: &Path,
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |reason: String| TlsError::File {
        what,
        path: path.to_owned(),
        reason,
    };
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| failed(error.to_string()))?;
    if found.is_empty() {
        return Err(failed("there is none in it".to_owned()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named() {
        let files = TlsFiles {
            certificate: PathBuf::from("/nonexistent/server.pem"),
            key: PathBuf::from("/nonexistent/key.pem"),
            authorities: None,
            verify_peer: false,
            require_peer_certificate: false,
            versions: Vec::new(),
        };
        let error = files.load().expect_err("no such file").to_string();
        assert!(error.starts_with("cannot read a certificate from /nonexistent/server.pem: "));
    }

    #[test]
    fn versions_are_the_two_that_are_safe() {
        let mut files = TlsFiles {
            certificate: PathBuf::new(),
            key: PathBuf::new(),
            authorities: None,
            verify_peer: false,
            require_peer_certificate: false,
            versions: vec!["tlsv1.3".to_owned()],
        };
        assert_eq!(files.protocol_versions().expect("known").len(), 1);
        files.versions = vec!["tlsv1.1".to_owned()];
        let error = files.protocol_versions().expect_err("too old").to_string();
        assert_eq!(
            error,
            "TLS version 'tlsv1.1' is not supported; tlsv1.2 and tlsv1.3 are"
        );
    }
}
