//! TLS around the meeting of two nodes, where operators have given them certificates.
//!
//! Both sides show a certificate that an authority of the cluster has signed, before anything of
//! the handshake ([`super::handshake`]) is said, which then passes inside of TLS and is bound to
//! it: both MACs and the keys of all records that follow are made of what TLS has agreed on too.
//! Whoever knows the secret and has no certificate has no keys, nor has who is between the two.
//!
//! Records follow on the socket itself: frames are encrypted once. Neither side reads a byte of
//! them into TLS: the acceptor's answer is the last of what TLS carries, and the dialer says
//! nothing before it has that.

use super::handshake::HandshakeError;
use crate::tls::{TlsError, authorities, chain, mismatch, private_key};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, ServerConfig, ServerConnection, SideData,
    StreamOwned,
};
use std::io::{self, Read, Write};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;

/// What the handshake is bound to by.
const EXPORTER: &[u8] = b"EXPORTER-leveret-link";

/// Where the certificates of a node are that it shows to other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTlsFiles {
    /// PEM: the node's certificate, then those that vouch for it.
    pub certificate: PathBuf,
    /// PEM: the key of the node's certificate.
    pub key: PathBuf,
    /// PEM: who may vouch for the nodes' certificates.
    pub authorities: PathBuf,
}

/// What a node shows to others and asks of them.
#[derive(Clone, Debug)]
pub struct LinkTls {
    dials: Arc<ClientConfig>,
    accepts: Arc<ServerConfig>,
}

/// What a handshake is bound to: what TLS has agreed on; empty without TLS.
pub type Channel = Vec<u8>;

impl LinkTlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub fn load(&self) -> Result<LinkTls, TlsError> {
        let settings = |error: &dyn std::fmt::Display| TlsError::Settings(error.to_string());
        let roots = Arc::new(authorities(&self.authorities)?);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let of_dialers =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| settings(&error))?;
        let of_acceptors =
            WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                .build()
                .map_err(|error| settings(&error))?;
        let chain = chain(&self.certificate)?;
        let key = private_key(&self.key)?;
        let differs = |error: rustls::Error| mismatch(&self.key, &self.certificate, &error);
        let dials = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| settings(&error))?
            .with_webpki_verifier(of_acceptors)
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(differs)?;
        let mut accepts = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| settings(&error))?
            .with_client_cert_verifier(of_dialers)
            .with_single_cert(chain, key)
            .map_err(differs)?;
        // Nothing of TLS comes behind the answer, and every meeting shows certificates.
        accepts.send_tls13_tickets = 0;
        Ok(LinkTls {
            dials: Arc::new(dials),
            accepts: Arc::new(accepts),
        })
    }
}

impl LinkTls {
    /// Meets the node that is to be at `host`: a name or an address of its certificate.
    ///
    /// # Errors
    /// If it shows no certificate for that, or does not take this node's.
    pub(super) fn dial<S: Read + Write>(
        &self,
        host: &str,
        stream: S,
    ) -> Result<(StreamOwned<ClientConnection, S>, Channel), HandshakeError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(&error))?;
        let session = ClientConnection::new(Arc::clone(&self.dials), name);
        meet(StreamOwned::new(
            session.map_err(|error| failed(&error))?,
            stream,
        ))
    }

    /// Meets whoever has dialed.
    ///
    /// # Errors
    /// If it shows no certificate of the cluster.
    pub(super) fn accept<S: Read + Write>(
        &self,
        stream: S,
    ) -> Result<(StreamOwned<ServerConnection, S>, Channel), HandshakeError> {
        let session = ServerConnection::new(Arc::clone(&self.accepts));
        meet(StreamOwned::new(
            session.map_err(|error| failed(&error))?,
            stream,
        ))
    }
}

fn meet<C, S, D>(
    mut stream: StreamOwned<C, S>,
) -> Result<(StreamOwned<C, S>, Channel), HandshakeError>
where
    C: DerefMut + Deref<Target = ConnectionCommon<D>>,
    S: Read + Write,
    D: SideData,
{
    while stream.conn.is_handshaking() {
        stream
            .conn
            .complete_io(&mut stream.sock)
            .map_err(|error| failed(&error))?;
    }
    let exported = stream.conn.export_keying_material([0; 32], EXPORTER, None);
    let channel: [u8; 32] = exported.map_err(|error| failed(&error))?;
    Ok((stream, channel.to_vec()))
}

fn failed(error: &dyn std::fmt::Display) -> HandshakeError {
    HandshakeError::Tls(error.to_string())
}

/// What was said inside of TLS and failed: an alert is told as TLS's.
pub(super) fn inside(error: HandshakeError) -> HandshakeError {
    match error {
        HandshakeError::Io(error) if error.kind() == io::ErrorKind::InvalidData => failed(&error),
        error => error,
    }
}
