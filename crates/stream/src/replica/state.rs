//! The state that a replica keeps beside its chunks, in one small file.

use crate::replica::{Epoch, EpochStart};
use bytes::{Buf, BufMut};
use leveret_types::limits::STREAM_EPOCHS_MAX;

/// Epochs that a replica passes over which does not know what it has promised.
const FORGOTTEN_EPOCHS: u64 = 1 << 32;

const MAGIC: [u8; 8] = *b"LVRTREPL";
/// Without and with the offset of damage; with that of a fence.
const VERSION: u16 = 1;
const VERSION_DAMAGED: u16 = 2;
const VERSION_FENCED: u16 = 3;
/// Bytes before the epochs: magic, version, flags, CRC, promised, log epoch, cut.
const HEAD_BYTES: usize = 8 + 2 + 2 + 4 + 8 + 8 + 8;
const IS_WHOLE: u16 = 1;
const HAS_CUT: u16 = 2;
const FORGOT: u16 = 4;
/// With version 3: the log is damaged as well.
const IS_DAMAGED: u16 = 8;

/// What a replica keeps beside its chunks. It changes with elections and attachments alone.
///
/// ```text
/// "LVRTREPL" | version u16 | flags u16 | CRC-32 u32 of all that follows
/// promised u64 | log epoch u64 | cut u64 | versions 2 and 3: damaged u64 | version 3: fenced u64
/// epochs: (epoch u64, first offset u64) …
/// ```
///
/// All numbers are big-endian.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaState {
    /// The newest epoch that it was asked to prepare for, or told of.
    pub promised: Epoch,
    /// The newest epoch whose leader's log, as it was when that epoch began, is here.
    pub log_epoch: Epoch,
    /// Whether it has all that it ever said it had.
    pub is_whole: bool,
    /// It may have promised more than it knows: its disk was lost. Until it has promised an epoch
    /// beyond all of these it counts for nothing and leads nothing.
    pub forgot: bool,
    /// A cut to this offset was begun: it is done again after a crash.
    pub cut: Option<u64>,
    /// The log is not trusted from this offset on: it is damaged there on disk.
    pub damaged: Option<u64>,
    /// All below this offset was committed, as this replica knew, and a leader that came later has
    /// not all of it: the replica keeps what it has and takes no part, until it is deleted.
    pub fenced: Option<u64>,
    /// Where epochs begin in the log, ascending: those that it may have chunks of.
    pub epochs: Vec<EpochStart>,
}

/// Bytes that are no state of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// They were written by a later version.
    #[error(
        "the file of a stream's replica has version {0}, which is not known: start a later version of the broker"
    )]
    Newer(u16),
    /// They are not what was written.
    #[error("the file of a stream's replica is damaged")]
    Damaged,
}

impl ReplicaState {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(32 + 16 * self.epochs.len());
        body.put_u64(self.promised.0);
        body.put_u64(self.log_epoch.0);
        body.put_u64(self.cut.unwrap_or(0));
        if let Some(from) = self.damaged.or(self.fenced.map(|_| 0)) {
            body.put_u64(from);
        }
        if let Some(committed) = self.fenced {
            body.put_u64(committed);
        }
        for start in &self.epochs {
            body.put_u64(start.epoch.0);
            body.put_u64(start.first_offset);
        }
        let whole = if self.is_whole { IS_WHOLE } else { 0 };
        let cut = self.cut.map_or(0, |_| HAS_CUT);
        let forgot = if self.forgot { FORGOT } else { 0 };
        let damaged = self.fenced.and(self.damaged).map_or(0, |_| IS_DAMAGED);
        let mut out = Vec::with_capacity(16 + body.len());
        out.put_slice(&MAGIC);
        out.put_u16(match (self.fenced, self.damaged) {
            (Some(_), _) => VERSION_FENCED,
            (None, Some(_)) => VERSION_DAMAGED,
            (None, None) => VERSION,
        });
        out.put_u16(whole | cut | forgot | damaged);
        let mut crc = crc32fast::Hasher::new();
        crc.update(&out[8..]);
        crc.update(&body);
        out.put_u32(crc.finalize());
        out.put_slice(&body);
        out
    }

    /// Reads what [`Self::encode`] made.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn decode(bytes: &[u8]) -> Result<Self, StateError> {
        let (head, body) = bytes.split_at_checked(16).ok_or(StateError::Damaged)?;
        let (magic, mut rest) = head.split_at(8);
        let (version, flags, crc) = (rest.get_u16(), rest.get_u16(), rest.get_u32());
        let mut sum = crc32fast::Hasher::new();
        sum.update(&head[8..12]);
        sum.update(body);
        if magic != MAGIC || sum.finalize() != crc {
            return Err(StateError::Damaged);
        }
        if version > VERSION_FENCED {
            return Err(StateError::Newer(version));
        }
        let (has_damaged, is_fenced) = (version >= VERSION_DAMAGED, version == VERSION_FENCED);
        let is_damaged = if is_fenced {
            flags & IS_DAMAGED != 0
        } else {
            has_damaged
        };
        let before_epochs =
            HEAD_BYTES - 16 + 8 * (usize::from(has_damaged) + usize::from(is_fenced));
        let epochs_bytes = body.len().checked_sub(before_epochs);
        let epochs_bytes = epochs_bytes.ok_or(StateError::Damaged)?;
        if epochs_bytes % 16 != 0 || epochs_bytes / 16 > STREAM_EPOCHS_MAX {
            return Err(StateError::Damaged);
        }
        let mut body = body;
        let (promised, log_epoch) = (Epoch(body.get_u64()), Epoch(body.get_u64()));
        let cut = body.get_u64();
        let damaged = has_damaged.then(|| body.get_u64()).filter(|_| is_damaged);
        let fenced = is_fenced.then(|| body.get_u64());
        let start = |bytes: &[u8]| {
            let mut bytes = bytes;
            EpochStart {
                epoch: Epoch(bytes.get_u64()),
                first_offset: bytes.get_u64(),
            }
        };
        Ok(Self {
            promised,
            log_epoch,
            is_whole: flags & IS_WHOLE != 0,
            forgot: flags & FORGOT != 0,
            cut: (flags & HAS_CUT != 0).then_some(cut),
            damaged,
            fenced,
            epochs: body.chunks_exact(16).map(start).collect(),
        })
    }

    /// What was answered to whoever elects is not so any more: the epoch that was prepared, if one
    /// was and is not led or followed yet, is given up for one that nobody leads.
    pub fn withdraw(&mut self) {
        if self.promised > self.log_epoch {
            self.promised = self.promised.next();
        }
    }

    /// Promises an epoch. A replica that may have promised others, which it does not know, promises
    /// one instead that is beyond them, as long as an election has not been begun so often in vain
    /// as that is away; `life` is that of the process, so that two of these are not the same.
    pub fn promise(&mut self, epoch: Epoch, life: u32) {
        self.promised = self.promised.max(epoch);
        if std::mem::take(&mut self.forgot) {
            let beyond = FORGOTTEN_EPOCHS + u64::from(life);
            self.promised = Epoch(self.promised.0.saturating_add(beyond));
        }
    }

    /// An epoch begins at this offset; those that have no chunk between `first_offset`, the oldest
    /// one that is stored, and this one are forgotten, and the oldest ones beyond the limit.
    pub fn begin_epoch(&mut self, epoch: Epoch, next_offset: u64, first_offset: u64) {
        self.epochs.retain(|start| start.first_offset < next_offset);
        let old = self
            .epochs
            .partition_point(|e| e.first_offset <= first_offset);
        self.epochs.drain(..old.saturating_sub(1));
        let excess = (self.epochs.len() + 1).saturating_sub(STREAM_EPOCHS_MAX);
        self.epochs.drain(..excess);
        self.epochs.push(EpochStart {
            epoch,
            first_offset: next_offset,
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;

    fn state(epochs: u64) -> ReplicaState {
        let mut state = ReplicaState {
            promised: Epoch(9),
            log_epoch: Epoch(8),
            is_whole: true,
            forgot: false,
            cut: Some(3),
            damaged: None,
            fenced: None,
            epochs: Vec::new(),
        };
        for n in 0..epochs {
            state.begin_epoch(Epoch(n + 1), n * 10, 0);
        }
        state
    }

    #[test]
    fn what_is_written_is_read_back_and_nothing_else_is() {
        let damaged = ReplicaState {
            damaged: Some(0),
            ..state(2)
        };
        let forgot = ReplicaState {
            forgot: true,
            ..ReplicaState::default()
        };
        let fenced = ReplicaState {
            fenced: Some(7),
            ..state(2)
        };
        let both = ReplicaState {
            fenced: Some(7),
            ..damaged.clone()
        };
        let others = [damaged, forgot, fenced, both];
        for state in [ReplicaState::default(), state(0), state(3)]
            .into_iter()
            .chain(others)
        {
            let bytes = state.encode();
            assert_eq!(ReplicaState::decode(&bytes), Ok(state));
            for at in 0..bytes.len() {
                let mut other = bytes.clone();
                other[at] ^= 0x10;
                assert!(ReplicaState::decode(&other).is_err(), "octet {at}");
                assert!(ReplicaState::decode(&bytes[..at]).is_err(), "{at} octets");
            }
        }
    }

    #[test]
    fn epochs_beyond_the_limit_are_forgotten_oldest_first() {
        let full = state(STREAM_EPOCHS_MAX as u64);
        assert_eq!(full.epochs.len(), STREAM_EPOCHS_MAX);
        assert_eq!(full.epochs[0].epoch, Epoch(1));
        let over = state(STREAM_EPOCHS_MAX as u64 + 1);
        assert_eq!(over.epochs.len(), STREAM_EPOCHS_MAX);
        assert_eq!(over.epochs[0].epoch, Epoch(2));
        assert_eq!(ReplicaState::decode(&over.encode()), Ok(over));
    }

    #[test]
    fn epochs_without_a_chunk_are_forgotten() {
        let mut state = state(3);
        state.begin_epoch(Epoch(7), 20, 0);
        let epochs =
            |state: &ReplicaState| state.epochs.iter().map(|e| e.epoch.0).collect::<Vec<_>>();
        assert_eq!(epochs(&state), [1, 2, 7]);
        state.begin_epoch(Epoch(8), 40, 15);
        assert_eq!(epochs(&state), [2, 7, 8]);
    }
}
