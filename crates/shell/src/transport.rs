//! A client's byte stream: plain TCP, or TLS over it.

use mio::net::TcpStream;
use rustls::ServerConnection;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

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
    session: ServerConnection,
}

impl Transport {
    /// TLS over `socket`, with the handshake still to come.
    pub fn tls(socket: TcpStream, session: ServerConnection) -> Self {
        Self::Tls(Box::new(Tls { socket, session }))
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
            Self::Tls(tls) => !tls.session.is_handshaking(),
        }
    }

    /// The certificates that the client has shown, its own first.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => tls.session.peer_certificates()?.first().map(AsRef::as_ref),
        }
    }

    /// TLS version and cipher suite, for listings.
    pub fn tls_status(&self) -> Option<(String, String)> {
        let Self::Tls(tls) = self else { return None };
        let version = format!("{:?}", tls.session.protocol_version()?);
        let suite = format!("{:?}", tls.session.negotiated_cipher_suite()?.suite());
        Some((version, suite))
    }

    /// Reads once. `Ok(0)` is the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` when there is nothing to read now; anything else ends the connection.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => retry(|| socket.read(buffer)),
            Self::Tls(tls) => tls.read(buffer),
        }
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
        if let Self::Tls(tls) = self {
            tls.session.send_close_notify();
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
        matches!(self, Self::Tls(tls) if tls.session.wants_write())
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
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A peer that leaves without `close_notify` has left all the same.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            let taken = retry(|| self.session.read_tls(&mut self.socket))?;
            if let Err(error) = self.session.process_new_packets() {
                // The alert that tells the client why is worth one try.
                let _ = self.session.write_tls(&mut self.socket);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
            if taken == 0 {
                return Ok(0);
            }
        }
    }

    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush()?;
        let taken = self.session.writer().write_vectored(slices)?;
        match self.flush() {
            Ok(()) => Ok(taken),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(taken),
            Err(error) => Err(error),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            retry(|| self.session.write_tls(&mut self.socket))?;
        }
        Ok(())
    }
}

fn retry<T>(mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
