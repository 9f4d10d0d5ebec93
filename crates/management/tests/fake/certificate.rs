//! A certificate for `localhost`, made when a test runs.

#![allow(dead_code, reason = "each test uses its part")]

use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;

/// A certificate that nobody has signed but itself.
pub struct Certificate {
    /// Settings of a server that shows it.
    pub server: Arc<ServerConfig>,
    /// What a client must trust to believe that server.
    pub der: CertificateDer<'static>,
    /// The same as text.
    pub pem: String,
}

impl Certificate {
    pub fn new() -> Self {
        let made =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let der = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![der.clone()], key)
            .expect("they go together");
        Self {
            server: Arc::new(server),
            der,
            pem: made.cert.pem(),
        }
    }
}
