//! Entrances for fuzzing: each takes any bytes, and must neither panic nor allocate much more than
//! it was given.

mod astray;
pub mod flipped;
mod stale;
pub mod streams;

pub use astray::lead_astray;
pub use stale::revive_stale;

use crate::folders::Identity;
use crate::record::Record;
use crate::segment::format::{decode_block, decode_footer, peek_block};
use crate::wal::format::{decode_file_header, decode_head, least_bytes, peek_head};

/// Salt with which the entrances verify checksums.
pub const SALT: u64 = 0;

/// A record of the write-ahead log; whether it is one. What is one is encoded to the same bytes
/// again.
#[must_use]
pub fn record(bytes: &[u8]) -> bool {
    let Some(record) = Record::decode(bytes) else {
        return false;
    };
    let mut again = Vec::new();
    record.encode(&mut again);
    assert_eq!(again, bytes, "{record:?}");
    true
}

/// A batch's head; whether it is one.
#[must_use]
pub fn wal_head(bytes: &[u8]) -> bool {
    let peeked = peek_head(bytes);
    let decoded = decode_head(bytes, SALT);
    assert!(decoded.is_none() || peeked.is_some());
    decoded.is_some()
}

/// A file header of the write-ahead log.
pub fn wal_file_header(bytes: &[u8]) {
    decode_file_header(bytes, SALT);
    least_bytes(bytes, SALT, 1);
}

/// A block of a segment file; whether it is one with all entries sound.
#[must_use]
pub fn segment_block(bytes: &[u8]) -> bool {
    let peeked = peek_block(bytes);
    let decoded = decode_block(bytes, SALT, 1, 32);
    assert!(decoded.is_none() || peeked.is_some());
    decoded.is_some_and(|(_, spans)| spans.iter().all(|span| span.sound))
}

/// A segment file's footer; whether it is one.
#[must_use]
pub fn segment_footer(bytes: &[u8]) -> bool {
    decode_footer(bytes, SALT, 1).is_some()
}

/// A checkpoint; whether it is one.
#[must_use]
pub fn checkpoint(bytes: &[u8]) -> bool {
    crate::checkpoint::decode(bytes, SALT).is_ok()
}

/// A store's identity; whether it is one.
#[must_use]
pub fn identity(bytes: &[u8]) -> bool {
    Identity::decode(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_entrance_takes_noise_for_data_or_panics() {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for len in (0..200).cycle().take(20_000) {
            let mut bytes: Vec<u8> = Vec::with_capacity(len);
            for _ in 0..len {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                bytes.push(state as u8);
            }
            let _ = record(&bytes);
            wal_file_header(&bytes);
            // Real magic numbers lead further in.
            for magic in [
                &b"LVWB"[..],
                b"LVSB",
                b"LVRTCKPT",
                b"LVRTDATA",
                b"LVRTSTRM",
                b"LVSC",
                b"LVRTSJNL",
                b"",
            ] {
                if bytes.len() >= magic.len() {
                    bytes[..magic.len()].copy_from_slice(magic);
                }
                assert!(!wal_head(&bytes) && !segment_block(&bytes));
                assert!(!segment_footer(&bytes) && !checkpoint(&bytes) && !identity(&bytes));
                assert!(!streams::segment(&bytes) && !streams::journal(&bytes));
            }
        }
    }
}
