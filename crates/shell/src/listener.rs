//! Listening sockets, and where a connection came from.

use crate::descriptors::may_be_a_clients;
use crate::transport::Transport;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use parking_lot::RwLock;
use rustix::io::Errno;
use rustls::{ServerConfig, ServerConnection};
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// The TLS settings of a listener, replaced as a whole when certificates are loaded again.
pub type TlsSettings = Arc<RwLock<Arc<ServerConfig>>>;

/// What is spoken at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// AMQP 0-9-1.
    Amqp,
    /// The stream protocol.
    Stream,
}

/// Where a connection came from and came to.
pub struct Origin {
    /// What it speaks.
    pub protocol: Protocol,
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
                Ok(Transport::tls(socket, session, self.remote.ip()))
            }
        }
    }
}

/// What a look at a listening socket gave.
pub enum Accepted {
    /// A connection.
    Connection(TcpStream, Origin),
    /// Nobody waits.
    Nobody,
    /// Whoever waits cannot be let in: to be tried again after a while.
    Failed(io::Error),
}

/// A file descriptor that is kept aside, to tell clients that there is none left for them: else
/// they would wait for an answer in a queue that nobody empties.
pub struct Reserve(Option<File>);

impl Reserve {
    /// Sets a descriptor aside, if there is one.
    pub fn take() -> Self {
        Self(File::open("/dev/null").ok())
    }

    /// Takes the next connection that waits at `listener` and closes it; false if that cannot be
    /// done now.
    pub fn turn_away(&mut self, listener: &Listener) -> bool {
        self.0 = None;
        let gone = listener.accept();
        let is_done = !matches!(gone, Accepted::Failed(_));
        drop(gone);
        *self = Self::take();
        is_done
    }
}

/// A listening socket, or the place of one that an operator has suspended.
pub struct Listener {
    /// None while it is suspended: clients are refused by the system, not left to wait.
    socket: Option<TcpListener>,
    local: SocketAddr,
    protocol: Protocol,
    tls: Option<TlsSettings>,
}

impl Listener {
    /// Listens on `address`.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn bind(
        address: SocketAddr,
        protocol: Protocol,
        tls: Option<TlsSettings>,
    ) -> io::Result<Self> {
        let socket = TcpListener::bind(address)?;
        // What is open by now is not of clients.
        let _ = may_be_a_clients(&socket);
        let local = socket.local_addr()?;
        Ok(Self {
            socket: Some(socket),
            local,
            protocol,
            tls,
        })
    }

    /// The address that it listens on: with the port that the system chose where none was given.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// What is spoken there.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Whether connections to it speak TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Has a poll tell of connections by this token; listens again where it was suspended.
    ///
    /// # Errors
    /// If the address cannot be bound again, or not be registered.
    pub fn resume(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let mut socket = match self.socket.take() {
            Some(socket) => socket,
            None => TcpListener::bind(self.local)?,
        };
        registry.register(&mut socket, token, Interest::READABLE)?;
        self.socket = Some(socket);
        Ok(())
    }

    /// Listens no more, until it is resumed.
    pub fn suspend(&mut self) {
        // The poll forgets a socket that is closed.
        self.socket = None;
    }

    /// Whether it listens.
    pub fn is_listening(&self) -> bool {
        self.socket.is_some()
    }

    /// The next connection that waits.
    pub fn accept(&self) -> Accepted {
        let Some(socket) = &self.socket else {
            return Accepted::Nobody;
        };
        loop {
            match socket.accept() {
                // What is left is for files.
                Ok((socket, _)) if !may_be_a_clients(&socket) => {
                    return Accepted::Failed(Errno::MFILE.into());
                }
                Ok((socket, remote)) => {
                    // Small frames must not wait for an acknowledgement; a socket that refuses the
                    // option still works.
                    let _ = socket.set_nodelay(true);
                    let tls = self
                        .tls
                        .as_ref()
                        .map(|settings| Arc::clone(&settings.read()));
                    let origin = Origin {
                        protocol: self.protocol,
                        remote,
                        local: self.local,
                        tls,
                    };
                    return Accepted::Connection(socket, origin);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Accepted::Nobody;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Out of file descriptors or memory: whoever waits stays where they are, and no
                // edge tells of them again.
                Err(error) => return Accepted::Failed(error),
            }
        }
    }
}
