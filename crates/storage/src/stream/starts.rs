//! Whether the streams' folder is as old as that of the data: both say which start was the last
//! one, and a copy of one of them that is put back says another.
//!
//! ```text
//! "LVRTSTRT" | version u16 | 0 u16 | crc u32 | start u64 | before u64
//! ```
//!
//! All numbers are little-endian. The crc is over the version and what follows it. `before` is the
//! start before as long as the other folder may have that one still, and then the same as `start`;
//! 0 is no start.

use crate::bytes_io::{Put, Take};
use crate::disk::{Disk, read_whole};
use crate::error::{Fatal, OpenError, WalError};
use crate::stream::files::StreamFiles;
use leveret_types::QueueId;
use std::io;
use std::path::Path;

/// Name of the file, in both folders.
const NAME: &str = "streams.start";
const MAGIC: [u8; 8] = *b"LVRTSTRT";
/// Version of the file's format. A file of a later version is refused.
const VERSION: u16 = 1;
const BYTES: usize = 32;

/// What a folder says of starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Starts {
    start: u64,
    before: u64,
}

impl Starts {
    fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BYTES);
        out.extend_from_slice(&MAGIC);
        out.put_u16(VERSION);
        out.put_u16(0);
        out.put_u32(0);
        out.put_u64(self.start);
        out.put_u64(self.before);
        let crc = crc(&out).to_le_bytes();
        out[12..16].copy_from_slice(&crc);
        out
    }

    /// `None` if it is not what was written.
    fn decode(path: &Path, bytes: &[u8]) -> Result<Option<Self>, OpenError> {
        let mut take = Take(bytes);
        let head = (|| Some((take.bytes(8)?, take.u16()?, take.u16()?, take.u32()?)))();
        let is_sound = |magic: &[u8], found: u32| {
            bytes.len() >= BYTES && magic == MAGIC && found == crc(bytes)
        };
        let Some((_, version, ..)) = head.filter(|(magic, _, _, crc)| is_sound(magic, *crc)) else {
            return Ok(None);
        };
        if version > VERSION {
            let path = path.to_owned();
            return Err(OpenError::Newer { path, version });
        }
        let numbers = take.u64().zip(take.u64());
        Ok(numbers.map(|(start, before)| Self { start, before }))
    }
}

/// The crc of such bytes, whatever stands where it belongs.
fn crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[8..12]), &bytes[16..])
}

/// Whether both folders are those of one start.
fn agree(data: Option<Starts>, streams: Option<Starts>) -> bool {
    match (data, streams) {
        // The data never said, or cannot be read.
        (None, streams) => streams.is_none(),
        (Some(data), streams) => {
            let start = streams.map_or(0, |streams| streams.start);
            start == data.start || start == data.before
        }
    }
}

impl<D: Disk> StreamFiles<D> {
    /// Notes in the streams' folder and in that of the data that the node starts once more. False
    /// if they do not agree on the start before: one of them is a copy that was put back, or is
    /// new. Then each replica of these streams may have promised more than it knows, and says so
    /// durably. To be called before any stream runs.
    ///
    /// On a full disk this start is not noted.
    ///
    /// # Errors
    /// If the disk refuses, or a file is of a later version.
    pub fn note_start(&mut self, data: &Path) -> Result<bool, OpenError> {
        let streams = self.files.folder().to_owned();
        let there = self.starts(&streams)?;
        let is_same = agree(self.starts(data)?, there);
        if !is_same {
            let all: Vec<QueueId> = self.streams().collect();
            all.into_iter()
                .try_for_each(|stream| self.doubt_promises(stream))?;
        }
        let start = self.run_number();
        // Until all of this is done, the next start finds what this one has found.
        let before = match is_same {
            true => there.map_or(0, |there| there.start),
            false => start,
        };
        let first = Starts { start, before };
        let last = Starts {
            start,
            before: start,
        };
        for (folder, starts) in [(data, first), (&streams, last), (data, last)] {
            match self.write_starts(folder, starts) {
                Ok(()) => {}
                Err(WalError::NoSpace) => return Ok(is_same),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(is_same)
    }

    fn starts(&self, folder: &Path) -> Result<Option<Starts>, OpenError> {
        let path = folder.join(NAME);
        match read_whole(self.files.disk(), &path) {
            Ok(bytes) => Starts::decode(&path, &bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(OpenError::io(&path, error)),
        }
    }

    fn write_starts(&self, folder: &Path, starts: Starts) -> Result<(), WalError> {
        self.replace(&folder.join(NAME), &starts.encode())?;
        let synced = self.files.disk().sync_dir(folder);
        Ok(synced.map_err(|error| Fatal::new("sync", folder, error))?)
    }

    /// A replica's small file may be older than what the replica has said.
    fn doubt_promises(&mut self, stream: QueueId) -> Result<(), OpenError> {
        match self.replica_state(stream) {
            Ok(Some(mut state)) => {
                state.forgot = true;
                state.is_whole = false;
                Ok(self.save_replica_state(stream, &state)?)
            }
            // It does not know anything.
            Ok(None) | Err(OpenError::Damaged { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
