//! A client's byte stream: plain TCP, or TLS over it.
//!
//! The steps of a TLS handshake are not computed by who reads: they take a millisecond or more, for
//! which nobody else on the thread is to wait. [`Transport::take_handshake`] gives the session away
//! for a step, [`Transport::put_back`] takes it back; until then there is nothing to read.

use mio::net::TcpStream;
use rustls::ServerConnection;
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown};
use std::sync::{Arc, Weak};

/// What TLS holds at most of what it has read of the socket and not given yet, in bytes; more than
/// it does.
const TLS_HELD_BYTES_MAX: usize = 256 * 1024;

/// The stream of one connection. Reads and writes never block: they answer
/// [`io::ErrorKind::WouldBlock`].
pub enum Transport {
    /// TCP.
    Plain(TcpStream),
    /// TLS over TCP.
    Tls(Box<Tls>),
}

/// A TLS session and the socket beneath it.
pub struct Tls {
    socket: TcpStream,
    session: Session,
    /// Where the client is.
    from: IpAddr,
    /// The node has said something: before, a client that has gone can have nothing to say.
    is_answered: bool,
    /// The session has read bytes of a handshake that nobody has looked at.
    is_step_due: bool,
}

enum Session {
    Here(Box<ServerConnection>),
    /// A step of the handshake is computed elsewhere. Whoever has that sees if this is dropped.
    Away {
        _wanted: Arc<()>,
    },
}

impl Session {
    /// The session, if it can be used now.
    fn here(&mut self) -> Option<&mut ServerConnection> {
        match self {
            Self::Here(session) => Some(session),
            Self::Away { .. } => None,
        }
    }

    fn get(&self) -> Option<&ServerConnection> {
        match self {
            Self::Here(session) => Some(session),
            Self::Away { .. } => None,
        }
    }
}

/// A session whose handshake has a step to compute.
pub struct HandshakeStep {
    session: Box<ServerConnection>,
    from: IpAddr,
    wanted: Weak<()>,
}

/// The same once that is done.
pub struct HandshakeDone {
    session: Box<ServerConnection>,
    result: Result<(), rustls::Error>,
}

impl HandshakeStep {
    /// Where the client is.
    pub const fn from(&self) -> IpAddr {
        self.from
    }

    /// Dead once the connection is gone.
    pub fn wanted(&self) -> Weak<()> {
        self.wanted.clone()
    }

    /// Computes the step.
    pub fn run(mut self) -> HandshakeDone {
        HandshakeDone {
            result: self.session.process_new_packets().map(drop),
            session: self.session,
        }
    }
}

impl Transport {
    /// TLS over `socket`, whose client is at `from`, with the handshake still to come.
    pub fn tls(socket: TcpStream, session: ServerConnection, from: IpAddr) -> Self {
        Self::Tls(Box::new(Tls {
            socket,
            session: Session::Here(Box::new(session)),
            from,
            is_answered: false,
            is_step_due: false,
        }))
    }

    /// Gives away the session if what was read is a step of a handshake.
    pub fn take_handshake(&mut self) -> Option<HandshakeStep> {
        let Self::Tls(tls) = self else { return None };
        if !std::mem::take(&mut tls.is_step_due) {
            return None;
        }
        let wanted = Arc::new(());
        let alive = Arc::downgrade(&wanted);
        match std::mem::replace(&mut tls.session, Session::Away { _wanted: wanted }) {
            Session::Here(session) => Some(HandshakeStep {
                session,
                from: tls.from,
                wanted: alive,
            }),
            Session::Away { .. } => None,
        }
    }

    /// Takes the session back, and sends what the step has to say.
    ///
    /// # Errors
    /// `WouldBlock` when the socket does not take all of it now; anything else, also what was wrong
    /// with the handshake, ends the connection.
    pub fn put_back(&mut self, done: HandshakeDone) -> io::Result<()> {
        let Self::Tls(tls) = self else { return Ok(()) };
        tls.is_answered |= done.session.wants_write();
        tls.session = Session::Here(done.session);
        let flushed = tls.flush();
        match done.result {
            Ok(()) => flushed,
            // The alert that tells the client why was worth one try.
            Err(error) => Err(invalid(error)),
        }
    }

    /// Whether the session is given away.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Tls(tls) if matches!(tls.session, Session::Away { .. }))
    }

    /// The same of a client that cannot have said anything yet which is worth the step if it has
    /// gone.
    pub fn awaits_answer(&self) -> bool {
        self.is_away() && matches!(self, Self::Tls(tls) if !tls.is_answered)
    }

    /// The socket, to register with the poll.
    pub fn socket(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &mut tls.socket,
        }
    }

    /// Whether the handshake is over.
    pub fn established(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Tls(tls) => tls.session.get().is_some_and(|s| !s.is_handshaking()),
        }
    }

    /// The certificates that the client has shown, its own first.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => {
                let shown = tls.session.get()?.peer_certificates()?;
                shown.first().map(AsRef::as_ref)
            }
        }
    }

    /// TLS version and cipher suite, for listings.
    pub fn tls_status(&self) -> Option<(String, String)> {
        let Self::Tls(tls) = self else { return None };
        let session = tls.session.get()?;
        let version = format!("{:?}", session.protocol_version()?);
        let suite = format!("{:?}", session.negotiated_cipher_suite()?.suite());
        Some((version, suite))
    }

    /// Reads once. `Ok(0)` is the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` when there is nothing to read now, or a handshake has a step to compute first;
    /// anything else ends the connection.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => retry(|| socket.read(buffer)),
            Self::Tls(tls) => tls.read(buffer),
        }
    }

    /// How many bytes at most can be read yet once the client has ended its sending.
    pub fn unread_bytes_max(&self) -> usize {
        let (socket, held) = match self {
            Self::Plain(socket) => (socket, 0),
            Self::Tls(tls) => (&tls.socket, TLS_HELD_BYTES_MAX),
        };
        let unread = rustix::io::ioctl_fionread(socket);
        unread.map_or(usize::MAX, |bytes| bytes as usize + held)
    }

    /// Writes as much of `slices` as the socket takes.
    ///
    /// # Errors
    /// `WouldBlock` when it takes nothing now; anything else ends the connection.
    pub fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => retry(|| socket.write_vectored(slices)),
            Self::Tls(tls) => tls.write(slices),
        }
    }

    /// Shows the peer the end of what is sent; reading goes on.
    ///
    /// # Errors
    /// What ends the connection.
    pub fn end_output(&mut self) -> io::Result<()> {
        if let Self::Tls(tls) = self
            && let Some(session) = tls.session.here()
        {
            session.send_close_notify();
            match tls.flush() {
                // The last alert is on its way: whoever reads that slowly sees no more than it.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                done => done?,
            }
        }
        self.socket().shutdown(Shutdown::Write)
    }

    /// Whether TLS has bytes of its own to write.
    pub fn wants_write(&self) -> bool {
        let Self::Tls(tls) = self else { return false };
        tls.session.get().is_some_and(|s| s.wants_write())
    }

    /// Writes what TLS has waiting.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

impl Tls {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(session) = self.session.here().filter(|_| !self.is_step_due) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        loop {
            match session.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A peer that leaves without `close_notify` has left all the same.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            let taken = retry(|| session.read_tls(&mut self.socket))?;
            if session.is_handshaking() && taken > 0 {
                self.is_step_due = true;
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if let Err(error) = session.process_new_packets() {
                // The alert that tells the client why is worth one try.
                let _ = session.write_tls(&mut self.socket);
                return Err(invalid(error));
            }
            if taken == 0 {
                return Ok(0);
            }
        }
    }

    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush()?;
        let Some(session) = self.session.here() else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let taken = session.writer().write_vectored(slices)?;
        match self.flush() {
            Ok(()) => Ok(taken),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(taken),
            Err(error) => Err(error),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(session) = self.session.here() else {
            return Ok(());
        };
        while session.wants_write() {
            retry(|| session.write_tls(&mut self.socket))?;
        }
        Ok(())
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn retry<T>(mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};
    use std::net::{Ipv4Addr, TcpListener, TcpStream as Socket};

    /// A client of TLS and the node's end of its connection.
    struct Both {
        client: ClientConnection,
        socket: Socket,
        transport: Transport,
    }

    fn both() -> Both {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        let shown = params.self_signed(&key).expect("signed").der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(shown.clone()).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().expect("a name");
        let client = ClientConnection::new(Arc::new(config), name).expect("a session");
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![shown], key)
            .expect("a pair");
        let session = ServerConnection::new(Arc::new(config)).expect("a session");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        let socket = Socket::connect(listener.local_addr().expect("bound")).expect("connected");
        let (accepted, remote) = listener.accept().expect("accepted");
        accepted.set_nonblocking(true).expect("a socket");
        Both {
            client,
            socket,
            transport: Transport::tls(TcpStream::from_std(accepted), session, remote.ip()),
        }
    }

    impl Both {
        fn client_speaks(&mut self) {
            while self.client.wants_write() {
                self.client.write_tls(&mut self.socket).expect("sent");
            }
        }

        /// Reads until something comes of it.
        fn step(&mut self) -> HandshakeStep {
            loop {
                let read = self.transport.read(&mut [0; 16]);
                let error = read.expect_err("nothing to read").kind();
                assert_eq!(error, io::ErrorKind::WouldBlock);
                match self.transport.take_handshake() {
                    Some(step) => return step,
                    None => std::thread::yield_now(),
                }
            }
        }
    }

    #[test]
    fn who_reads_computes_no_handshake_and_nothing_behind_one_is_lost() {
        let mut both = both();
        both.client_speaks();
        let step = both.step();
        assert!(both.transport.is_away() && both.transport.awaits_answer());
        assert!(!both.transport.established() && !both.transport.wants_write());
        let read = both
            .transport
            .read(&mut [0; 16])
            .map_err(|error| error.kind());
        assert_eq!(read, Err(io::ErrorKind::WouldBlock));
        both.socket.set_nonblocking(true).expect("a socket");
        let said = both.socket.peek(&mut [0]).map_err(|error| error.kind());
        assert_eq!(said, Err(io::ErrorKind::WouldBlock), "nothing is said yet");
        both.socket.set_nonblocking(false).expect("a socket");

        both.transport.put_back(step.run()).expect("sent");
        while !both.client.wants_write() {
            both.client.read_tls(&mut both.socket).expect("an answer");
            both.client.process_new_packets().expect("a handshake");
        }
        // What is to be read comes with the end of the handshake.
        both.client.writer().write_all(b"behind").expect("taken");
        both.client_speaks();
        let step = both.step();
        assert!(both.transport.is_away() && !both.transport.awaits_answer());
        both.transport.put_back(step.run()).expect("sent");
        assert!(both.transport.established());
        let mut read = Vec::new();
        while read.len() < 6 {
            let mut buffer = [0; 16];
            match both.transport.read(&mut buffer) {
                Ok(count) => read.extend_from_slice(&buffer[..count]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            assert!(both.transport.take_handshake().is_none(), "it is over");
        }
        assert_eq!(read, b"behind");
    }

    #[test]
    fn a_handshake_that_fails_elsewhere_is_the_end_of_its_connection() {
        let mut both = both();
        // A record of a handshake in which there is none.
        let record = [0x16, 3, 1, 0, 4, 9, 9, 9, 9];
        both.socket.write_all(&record).expect("sent");
        let done = both.step().run();
        let failed = both.transport.put_back(done).map_err(|error| error.kind());
        assert_eq!(failed, Err(io::ErrorKind::InvalidData));
    }

    #[test]
    fn nobody_wants_a_step_whose_connection_is_gone() {
        let mut both = both();
        both.client_speaks();
        let step = both.step();
        assert_eq!(step.wanted().strong_count(), 1);
        drop(both.transport);
        assert_eq!(step.wanted().strong_count(), 0);
    }
}
