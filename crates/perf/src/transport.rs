//! The byte stream to a broker: TCP, or TLS over it. It blocks while a connection is set up, and
//! never after [`Transport::into_nonblocking`].

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use crate::spec::Tls;
use crate::trust::GivenCertificates;
use crate::uri::Uri;

/// Octets that TLS may hold for a socket that takes no more.
const TLS_BUFFER_BYTES: usize = 256 * 1024;

/// A stream to a broker.
pub struct Transport {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
}

enum Socket {
    Blocking(TcpStream),
    Polled(mio::net::TcpStream),
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Blocking(socket) => socket.read(buffer),
            Self::Polled(socket) => socket.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Blocking(socket) => socket.write(bytes),
            Self::Polled(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How to check a broker's certificate.
///
/// # Errors
/// A text, if the file of authorities cannot be used or there is none.
pub fn tls_config(tls: &Tls) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = match &tls.ca_file {
        _ if tls.insecure => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth(),
        None => {
            let help = "give the authority's certificate (--ca-file) or take any (--insecure-tls)";
            return Err(format!("nothing says whom to trust with TLS: {help}"));
        }
        Some(file) => {
            let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
            let mut roots = RootCertStore::empty();
            let mut given = Vec::new();
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| named(&error))? {
                let certificate = certificate.map_err(|error| named(&error))?;
                roots
                    .add(certificate.clone())
                    .map_err(|error| named(&error))?;
                given.push(certificate);
            }
            let believed = GivenCertificates::new(given, roots, provider);
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(
                    believed.map_err(|error| named(&error))?,
                ))
                .with_no_client_auth()
        }
    };
    Ok(Arc::new(config))
}

/// Takes every certificate, as PerfTest does; that whoever shows it has its key is still checked.
/// For brokers on test machines only.
#[derive(Debug)]
pub struct AnyCertificate(Arc<CryptoProvider>);

impl AnyCertificate {
    /// Checks signatures by what this provider knows.
    #[must_use]
    pub const fn new(provider: Arc<CryptoProvider>) -> Self {
        Self(provider)
    }

    fn algorithms(&self) -> &WebPkiSupportedAlgorithms {
        &self.0.signature_verification_algorithms
    }
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, self.algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, self.algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms().supported_schemes()
    }
}

impl Transport {
    /// Connects; with TLS, the handshake comes with the first bytes.
    ///
    /// # Errors
    /// Of the socket, or of TLS.
    pub fn connect(
        uri: &Uri,
        tls: Option<&Arc<ClientConfig>>,
        patience: Duration,
    ) -> io::Result<Self> {
        let socket = reach(uri, patience)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(patience))?;
        socket.set_write_timeout(Some(patience))?;
        let session = match tls.filter(|_| uri.tls) {
            None => None,
            Some(config) => {
                let name = ServerName::try_from(uri.host.clone()).map_err(io::Error::other)?;
                let session = ClientConnection::new(Arc::clone(config), name);
                let mut session = session.map_err(io::Error::other)?;
                session.set_buffer_limit(Some(TLS_BUFFER_BYTES));
                Some(Box::new(session))
            }
        };
        Ok(Self {
            socket: Socket::Blocking(socket),
            tls: session,
        })
    }

    /// From here on reads and writes answer [`io::ErrorKind::WouldBlock`] instead of waiting.
    ///
    /// # Errors
    /// Of the socket.
    pub fn into_nonblocking(self) -> io::Result<Self> {
        let socket = match self.socket {
            Socket::Blocking(socket) => {
                socket.set_nonblocking(true)?;
                Socket::Polled(mio::net::TcpStream::from_std(socket))
            }
            polled @ Socket::Polled(_) => polled,
        };
        Ok(Self {
            socket,
            tls: self.tls,
        })
    }

    /// Cuts the connection, whatever is on its way.
    pub fn cut(&mut self) {
        // One that is cut already is what is wanted.
        let _ = match &mut self.socket {
            Socket::Blocking(socket) => socket.shutdown(Shutdown::Both),
            Socket::Polled(socket) => socket.shutdown(Shutdown::Both),
        };
    }

    /// The socket, to register with a poll; none while it blocks.
    pub fn polled(&mut self) -> Option<&mut mio::net::TcpStream> {
        match &mut self.socket {
            Socket::Polled(socket) => Some(socket),
            Socket::Blocking(_) => None,
        }
    }

    /// Whether there is TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Reads once. `Ok(0)` is the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` when there is nothing to read now; anything else ends the connection.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => retry(|| self.socket.read(buffer)),
            Some(session) => tls_read(session, &mut self.socket, buffer),
        }
    }

    /// Writes as much of `bytes` as is taken.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is taken now; anything else ends the connection.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(session) = &mut self.tls else {
            return retry(|| self.socket.write(bytes));
        };
        tls_flush(session, &mut self.socket)?;
        let taken = session.writer().write(bytes)?;
        match tls_flush(session, &mut self.socket) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Writes what TLS holds.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(session) => tls_flush(session, &mut self.socket),
            None => Ok(()),
        }
    }
}

/// Connects to the first of the name's addresses that takes the connection in time.
fn reach(uri: &Uri, patience: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::other(format!("`{}` has no address", uri.host));
    for address in (uri.host.as_str(), uri.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn tls_read(
    session: &mut ClientConnection,
    socket: &mut Socket,
    buffer: &mut [u8],
) -> io::Result<usize> {
    loop {
        match session.reader().read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // A broker that leaves without `close_notify` has left all the same.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
            done => return done,
        }
        // The handshake's end lets what was written during it go out: before that is waited for.
        match tls_flush(session, socket) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        let taken = retry(|| session.read_tls(socket))?;
        session
            .process_new_packets()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if taken == 0 {
            return Ok(0);
        }
    }
}

fn tls_flush(session: &mut ClientConnection, socket: &mut Socket) -> io::Result<()> {
    while session.wants_write() {
        retry(|| session.write_tls(socket))?;
    }
    Ok(())
}

fn retry<T>(mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
