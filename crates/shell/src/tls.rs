//! TLS settings from files, and the name in a client's certificate.

use leveret_node::certificate;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig,
    SignatureScheme, SupportedProtocolVersion,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a certificate is that cannot say what it may be used for.
const VERSION_1: &str = "of X.509 version 1, which TLS does not take: make one of version 3 (openssl \
                         makes them of requests with -extfile or -copy_extensions)";

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
    /// Certificates that may lie between a client's and the authority's.
    pub depth: usize,
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
        let chain = chain(&self.certificate)?;
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
            builder.with_client_cert_verifier(Arc::new(Checked {
                verifier,
                depth: self.depth,
            }))
        } else {
            builder.with_no_client_auth()
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| mismatch(&self.key, &self.certificate, &error))?;
        if self.verify_peer {
            // Who goes on with an earlier session shows no certificate: nobody would see that it
            // has ended meanwhile.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
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

/// Checks of a client's certificate beside the library's.
#[derive(Debug)]
struct Checked {
    verifier: Arc<dyn ClientCertVerifier>,
    depth: usize,
}

impl ClientCertVerifier for Checked {
    fn offer_client_auth(&self) -> bool {
        self.verifier.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.verifier.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        if certificate::is_version_1(end_entity) {
            return Err(rustls::Error::General(format!(
                "the client's certificate is {VERSION_1}"
            )));
        }
        if intermediates.len() <= self.depth {
            return self
                .verifier
                .verify_client_cert(end_entity, intermediates, now);
        }
        // The library gets only those that lie on the path, and no more of them than may.
        let shown: Vec<&[u8]> = intermediates.iter().map(AsRef::as_ref).collect();
        let path = certificate::path(end_entity, &shown, self.depth + 1);
        let within = path.iter().take(self.depth);
        let within: Vec<_> = within.map(|der| CertificateDer::from(*der)).collect();
        let verified = self.verifier.verify_client_cert(end_entity, &within, now);
        match verified {
            Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer))
                if path.len() > self.depth =>
            {
                Err(rustls::Error::General(format!(
                    "more than {} certificates lie between the client's and its authority's \
                     (ssl_options.depth)",
                    self.depth
                )))
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
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

/// A certificate to show, and those that vouch for it.
pub(crate) fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    const WHAT: &str = "a certificate";
    let chain = certificates(path, WHAT)?;
    if chain.iter().any(|der| certificate::is_version_1(der)) {
        return Err(TlsError::File {
            what: WHAT,
            path: path.to_owned(),
            reason: format!("one in it is {VERSION_1}"),
        });
    }
    Ok(chain)
}

/// The certificates in a file, in their order; at least one.
fn certificates(path: &Path, what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
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
            depth: 10,
            versions: Vec::new(),
        };
        let error = files.load().expect_err("no such file").to_string();
        assert!(error.starts_with("cannot read a certificate from /nonexistent/server.pem: "));
    }

    /// Nothing of its own, self-signed, made by openssl.
    const OF_VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBFTCBvQIUDNrJzstWlQa3OnZJ/QmBQjBXLA0wCgYIKoZIzj0EAwIwDTELMAkG\n\
A1UEAwwCdjEwIBcNMjYxMTIzMTczNDIwWhgPMjEyNjEwMzAxNzM0MjBaMA0xCzAJ\n\
BgNVBAMMAnYxMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEMe8/helIFJXu0XD5\n\
mTbbyElhLFlrnCnRrlb704j8yGtujdxe03MAVE6OlPZVDLH7T1lQobvgFYB06Aee\n\
AuUozTAKBggqhkjOPQQDAgNHADBEAiBXd/JUW595QDl6gJBn+eZEiycRLxoPpVjD\n\
DXLEF99nqAIgNY3GeMT+PPm6intUJZZvRTUlikobYniUimdn04h23lE=\n\
-----END CERTIFICATE-----\n\
";

    #[test]
    fn certificates_of_version_1_are_refused_by_name() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), OF_VERSION_1).expect("written");
        let of_node = chain(file.path()).map(drop);
        let error = of_node.expect_err("version 1").to_string();
        assert!(error.contains("of X.509 version 1"), "{error}");

        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(Vec::new()).expect("no names");
        let authority = params.self_signed(&key).expect("signed");
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let checked = Checked {
            verifier: verifier.build().expect("one authority"),
            depth: 10,
        };
        let client = CertificateDer::from_pem_slice(OF_VERSION_1.as_bytes()).expect("PEM");
        let refused = checked.verify_client_cert(&client, &[], UnixTime::now());
        let refused = refused.map(drop).expect_err("version 1").to_string();
        assert!(refused.contains("of X.509 version 1"), "{refused}");
        assert!(!certificate::is_version_1(authority.der()));
    }

    #[test]
    fn versions_are_the_two_that_are_safe() {
        let mut files = TlsFiles {
            certificate: PathBuf::new(),
            key: PathBuf::new(),
            authorities: None,
            verify_peer: false,
            require_peer_certificate: false,
            depth: 10,
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
