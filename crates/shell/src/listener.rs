//! Listening sockets, and where a connection came from.

use crate::transport::Transport;
use mio::net::{TcpListener, TcpStream};
use parking_lot::RwLock;
use rustls::{ServerConfig, ServerConnection};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// The TLS settings of a listener, replaced as a whole when certificates are loaded again.
pub type TlsSettings = Arc<RwLock<Arc<ServerConfig>>>;

/// Where a connection came from and came to.
pub struct Origin {
    /// The client's address.
    pub remote: SocketAddr,
    /// The address that it connected to.
    pub local: SocketAddr,
    /// The settings of the TLS that it must speak.
    pub tls: Option<Arc<ServerConfig>>,
}

impl Origin {
    /// The transport that this origin asks for, over `socket`.
    ///
    /// # Errors
    /// If the TLS settings cannot start a session.
    pub fn transport(&self, socket: TcpStream) -> io::Result<Transport> {
        match &self.tls {
            None => Ok(Transport::Plain(socket)),
            Some(settings) => {
                let session =
                    ServerConnection::new(Arc::clone(settings)).map_err(io::Error::other)?;
                Ok(Transport::tls(socket, session))
            }
        }
    }
}

/// A listening socket.
pub struct Listener {
    socket: TcpListener,
    local: SocketAddr,
    tls: Option<TlsSettings>,
}

impl Listener {
    /// Listens on `address`.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn bind(address: SocketAddr, tls: Option<TlsSettings>) -> io::Result<Self> {
        let socket = TcpListener::bind(address)?;
        let local = socket.local_addr()?;
        Ok(Self { socket, local, tls })
    }

    /// The address that it listens on: with the port that the system chose where none was given.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Whether connections to it speak TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The socket, to register with a poll.
    pub fn socket(&mut self) -> &mut TcpListener {
        &mut self.socket
    }

    /// The next connection that waits, if any.
    pub fn accept(&self) -> Option<(TcpStream, Origin)> {
        loop {
            match self.socket.accept() {
                Ok((socket, remote)) => {
                    // Small frames must not wait for an acknowledgement; a socket that refuses the
                    // option still works.
                    let _ = socket.set_nodelay(true);
                    let tls = self
                        .tls
                        .as_ref()
                        .map(|settings| Arc::clone(&settings.read()));
                    return Some((
                        socket,
                        Origin {
                            remote,
                            local: self.local,
                            tls,
                        },
                    ));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(%error, address = %self.local, "cannot accept a connection");
                    return None;
                }
            }
        }
    }
}
