//! A stream whose bytes are in records, for those who can wait for it: requests and their answers.

use super::handshake::Protection;
use super::seal::{HEADER_BYTES, RECORD_BYTES_MAX, Session};
use leveret_types::limits::PEER_RECORD_BYTES_MAX;
use std::io::{self, Read, Write};

/// Reads and writes a stream as both sides have agreed.
pub(super) struct SealedStream<S> {
    stream: S,
    session: Session,
    protection: Protection,
    /// What has come and was not read yet: a record, of which the part behind `at` is said.
    said: Vec<u8>,
    at: usize,
}

impl<S> SealedStream<S> {
    pub(super) const fn new(stream: S, session: Session, protection: Protection) -> Self {
        Self {
            stream,
            session,
            protection,
            said: Vec::new(),
            at: 0,
        }
    }
}

impl<S> SealedStream<S> {
    pub(super) const fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }
}

impl<S: Read> SealedStream<S> {
    fn read_record(&mut self) -> io::Result<()> {
        let mut record = vec![0; HEADER_BYTES];
        self.stream.read_exact(&mut record)?;
        let broken = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        // A length that no record has is refused here.
        self.session.opener.open(&mut record).map_err(broken)?;
        let length = u32::from_le_bytes([record[0], record[1], record[2], record[3]]);
        // It grows with what comes, not with what was claimed.
        let mut rest = (&mut self.stream).take(u64::from(length));
        rest.read_to_end(&mut record)?;
        match self.session.opener.open(&mut record).map_err(broken)? {
            Some((said, _)) => (self.said, self.at) = (said.to_vec(), 0),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }
}

impl<S: Read> Read for SealedStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.protection == Protection::Plain {
            return self.stream.read(buffer);
        }
        while self.at == self.said.len() {
            self.read_record()?;
        }
        let count = (&self.said[self.at..]).read(buffer)?;
        self.at += count;
        Ok(count)
    }
}

impl<S: Write> Write for SealedStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.protection == Protection::Plain {
            return self.stream.write(bytes);
        }
        let count = bytes.len().min(PEER_RECORD_BYTES_MAX);
        let mut record = Vec::with_capacity(RECORD_BYTES_MAX.min(count + 64));
        record.resize(HEADER_BYTES, 0);
        record.extend_from_slice(&bytes[..count]);
        self.session.sealer.seal(&mut record, 0);
        self.stream.write_all(&record)?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::super::seal;
    use super::*;
    use std::io::Cursor;

    #[test]
    fn what_is_written_is_read_in_any_steps_and_nothing_else() {
        let text: Vec<u8> = (0..3 * PEER_RECORD_BYTES_MAX + 7)
            .map(|n| n as u8)
            .collect();
        let (dialer, acceptor) = seal::pair();
        let mut writes = SealedStream::new(Vec::new(), dialer, Protection::Sealed);
        for part in text.chunks(PEER_RECORD_BYTES_MAX * 2 - 11) {
            writes.write_all(part).expect("memory");
        }
        let bytes = writes.stream;
        let mut reads = SealedStream::new(Cursor::new(&bytes), acceptor, Protection::Sealed);
        let mut read = vec![0; text.len()];
        reads.read_exact(&mut read).expect("whole");
        assert_eq!(read, text);
        let end = reads.read(&mut [0]).expect_err("its end").kind();
        assert_eq!(end, io::ErrorKind::UnexpectedEof);

        let mut flipped = bytes;
        flipped[PEER_RECORD_BYTES_MAX / 2] ^= 1;
        let (_, acceptor) = seal::pair();
        let mut reads = SealedStream::new(Cursor::new(&flipped), acceptor, Protection::Sealed);
        let error = reads.read(&mut [0]).expect_err("it was altered");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
