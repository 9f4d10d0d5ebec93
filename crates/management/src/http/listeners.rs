//! Where the server listens: TCP, TCP with TLS, and a socket file for the command line.

use crate::descriptors::may_be_a_clients;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustls::ServerConfig;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::io::Interest;
use tokio_rustls::TlsAcceptor;

/// What is served at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// The HTTP API.
    Api,
    /// The metrics.
    Metrics,
}

/// The TLS settings of an endpoint, replaced as a whole when certificates are read again.
#[derive(Clone, Debug)]
pub struct Tls(Arc<RwLock<Arc<ServerConfig>>>);

impl Tls {
    /// TLS with these settings.
    #[must_use]
    pub fn new(settings: Arc<ServerConfig>) -> Self {
        Self(Arc::new(RwLock::new(settings)))
    }

    /// Gives new connections these settings; open ones keep theirs.
    pub fn replace(&self, settings: Arc<ServerConfig>) {
        // A whole value is stored or none: a writer that panicked left nothing half done.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    pub(crate) fn settings(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where something is to be served.
#[derive(Clone, Debug)]
pub enum ListenAddress {
    /// At a TCP address, with TLS where there are settings for it.
    Tcp(SocketAddr, Option<Tls>),
    /// At a socket file, for programs of the same user on this machine.
    File(PathBuf),
}

/// One thing to serve, and where.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// What.
    pub service: Service,
    /// Where.
    pub address: ListenAddress,
}

impl Endpoint {
    /// `service` at a TCP address, without TLS.
    #[must_use]
    pub const fn plain(service: Service, address: SocketAddr) -> Self {
        Self {
            service,
            address: ListenAddress::Tcp(address, None),
        }
    }
}

/// An endpoint that is listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// What is served.
    pub service: Service,
    /// Whether with TLS.
    pub tls: bool,
    /// The address, with the port that the system chose where none was given.
    pub address: SocketAddr,
}

/// A bound listener that the runtime has not taken over yet.
pub(crate) enum Listener {
    Tcp(std::net::TcpListener, Option<Tls>),
    File(std::os::unix::net::UnixListener),
}

/// Binds an endpoint; an address where it has one.
pub(crate) fn bind(endpoint: &Endpoint) -> io::Result<(Listener, Option<Bound>)> {
    let failed = |address: String, error: io::Error| {
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
    };
    match &endpoint.address {
        ListenAddress::Tcp(address, tls) => {
            let listener = std::net::TcpListener::bind(address)
                .map_err(|error| failed(address.to_string(), error))?;
            listener.set_nonblocking(true)?;
            let bound = Bound {
                service: endpoint.service,
                tls: tls.is_some(),
                address: listener.local_addr()?,
            };
            Ok((Listener::Tcp(listener, tls.clone()), Some(bound)))
        }
        ListenAddress::File(path) => {
            let listener =
                bind_file(path).map_err(|error| failed(path.display().to_string(), error))?;
            Ok((Listener::File(listener), None))
        }
    }
}

/// A socket file that only its owner may use. One that a dead process left is replaced.
fn bind_file(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        std::fs::remove_file(path)?;
    }
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A listener that the runtime has taken over.
pub(crate) enum Open {
    Tcp(tokio::net::TcpListener, Option<Tls>),
    File(tokio::net::UnixListener),
}

/// A connection that was accepted, before its TLS handshake.
pub(crate) enum Stream {
    Tcp(tokio::net::TcpStream),
    Tls(tokio::net::TcpStream, TlsAcceptor),
    File(tokio::net::UnixStream),
}

impl Stream {
    /// Waits until the peer has sent something, or has gone: a look at what has come, for a socket
    /// that has just been accepted is taken for readable until it was read once.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        let mut first = [0];
        match self {
            Self::Tcp(stream) | Self::Tls(stream, _) => stream.peek(&mut first).await.map(drop),
            Self::File(stream) => {
                let look = || Ok(recv(stream, &mut first, RecvFlags::PEEK).map(drop)?);
                stream.async_io(Interest::READABLE, look).await
            }
        }
    }
}

/// Which way a connection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the socket file, which the node's user alone can use.
    File,
    /// By an address of this machine that only this machine reaches.
    Loopback,
    /// By any other address.
    Network,
}

impl Open {
    /// Takes a listener over. Must be called within the runtime.
    pub(crate) fn new(listener: Listener) -> Self {
        match listener {
            Listener::Tcp(listener, tls) => {
                // What is open by now is not of clients.
                let _ = may_be_a_clients(&listener);
                Self::Tcp(taken(tokio::net::TcpListener::from_std(listener)), tls)
            }
            Listener::File(listener) => {
                Self::File(taken(tokio::net::UnixListener::from_std(listener)))
            }
        }
    }

    /// The next connection, where it comes from, and which way.
    pub(crate) async fn next(&self) -> io::Result<(Stream, IpAddr, Way)> {
        match self {
            Self::Tcp(listener, tls) => {
                let (stream, peer) = listener.accept().await?;
                if !may_be_a_clients(&stream) {
                    // What is left is for files. The caller's pause keeps whoever comes waiting.
                    return Err(Errno::MFILE.into());
                }
                // What follows the end of a TLS handshake would wait for the client to acknowledge
                // that. Where the system refuses, answers are late and whole.
                let _ = stream.set_nodelay(true);
                let way = match stream.local_addr()?.ip().to_canonical().is_loopback() {
                    true => Way::Loopback,
                    false => Way::Network,
                };
                let stream = match tls {
                    None => Stream::Tcp(stream),
                    Some(tls) => Stream::Tls(stream, TlsAcceptor::from(tls.settings())),
                };
                Ok((stream, peer.ip(), way))
            }
            Self::File(listener) => {
                let (stream, _) = listener.accept().await?;
                // Only programs on this machine reach a file.
                let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
                Ok((Stream::File(stream), peer, Way::File))
            }
        }
    }
}

/// What the runtime took over.
fn taken<L>(listener: io::Result<L>) -> L {
    // It is bound and non-blocking: only a runtime without a driver refuses it.
    listener.unwrap_or_else(|error| unreachable!("a bound listener was refused: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_answered_does_not_wait_for_what_was_answered_before() {
        let endpoint = Endpoint {
            service: Service::Api,
            address: ListenAddress::Tcp(([127, 0, 0, 1], 0).into(), None),
        };
        let (listener, bound) = bind(&endpoint).expect("a port");
        let address = bound.expect("an address").address;
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().build().expect("a runtime");
        let accepted = runtime.block_on(async {
            let _client = std::net::TcpStream::connect(address).expect("it listens");
            Open::new(listener).next().await.map(|(stream, ..)| stream)
        });
        let Ok(Stream::Tcp(stream)) = accepted else {
            panic!("no connection");
        };
        assert!(stream.nodelay().expect("a socket"));
    }
}
