//! Records: what two nodes say to each other behind the handshake, encrypted and authenticated.
//!
//! ```text
//! 0   4   length of what follows, little endian: 16 to 16 + PEER_RECORD_BYTES_MAX
//! 4   n   ciphertext (AES-256-GCM)
//!     16  its tag, over the length too
//! ```
//!
//! Each direction has a key of its own. A record's place in its direction is its nonce, so that one
//! that is altered, left out, repeated or moved does not open, and nothing behind it does. After so
//! many bytes or records both sides go on with the next key, which is made of the one before;
//! nothing is said about it.

use leveret_types::limits::{PEER_KEY_BYTES_MAX, PEER_KEY_RECORDS_MAX, PEER_RECORD_BYTES_MAX};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{self, HKDF_SHA256, Prk};

/// Bytes before a record's ciphertext.
pub const HEADER_BYTES: usize = 4;
const TAG_BYTES: usize = 16;
/// Bytes of the longest record.
pub const RECORD_BYTES_MAX: usize = HEADER_BYTES + PEER_RECORD_BYTES_MAX + TAG_BYTES;

/// Why what has come is no record of the other side's. Nothing behind it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It says that it is longer than any may be, or shorter.
    #[error("a record of {0} bytes, which none has: what comes is not from that node")]
    Length(u32),
    /// It is not what the other side has sent, or not at this place.
    #[error(
        "a record's seal is broken: somebody between the nodes has altered, left out, repeated or \
         moved what they say"
    )]
    Broken,
}

/// When one key is followed by the next.
#[derive(Clone, Copy, Debug)]
struct Renewal {
    bytes: u64,
    records: u64,
}

const RENEWAL: Renewal = Renewal {
    bytes: PEER_KEY_BYTES_MAX,
    records: PEER_KEY_RECORDS_MAX,
};

/// What both sides of a connection have agreed on: see [`Session::new`].
#[derive(Debug)]
pub struct Session {
    /// Seals what this side says.
    pub sealer: Sealer,
    /// Opens what the other side says.
    pub opener: Opener,
}

/// Which side of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It has dialed.
    Dialer,
    /// It was dialed.
    Acceptor,
}

impl Session {
    /// The keys of both directions, from what the secret and both sides' ephemeral keys make, for
    /// the handshake of which this is the hash.
    #[must_use]
    pub fn new(shared: &Prk, transcript: &[u8], side: Side) -> Self {
        let direction = |label: &[u8]| Direction::new(derived(shared, &[label, transcript]));
        let of_dialer = direction(b"leveret 3 records of the dialer");
        let of_acceptor = direction(b"leveret 3 records of the acceptor");
        let (own, theirs) = match side {
            Side::Dialer => (of_dialer, of_acceptor),
            Side::Acceptor => (of_acceptor, of_dialer),
        };
        Self {
            sealer: Sealer(own),
            opener: Opener(theirs),
        }
    }
}

fn derived(from: &Prk, info: &[&[u8]]) -> Prk {
    let expanded = from.expand(info, HKDF_SHA256);
    expanded.expect("HKDF makes 32 bytes").into()
}

struct Direction {
    /// What the next key is made of.
    chain: Prk,
    key: LessSafeKey,
    /// Records so far: the next one's nonce.
    sequence: u64,
    key_bytes: u64,
    key_records: u64,
    renewal: Renewal,
}

impl std::fmt::Debug for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Direction")
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

impl Direction {
    fn new(chain: Prk) -> Self {
        Self {
            key: key(&chain),
            chain,
            sequence: 0,
            key_bytes: 0,
            key_records: 0,
            renewal: RENEWAL,
        }
    }

    /// The key and the nonce of the next record, which has so many bytes.
    fn next(&mut self, bytes: usize) -> (&LessSafeKey, Nonce) {
        let bytes = bytes as u64;
        let is_spent =
            self.key_bytes + bytes > self.renewal.bytes || self.key_records >= self.renewal.records;
        if is_spent {
            self.chain = derived(&self.chain, &[b"leveret 3 next"]);
            self.key = key(&self.chain);
            (self.key_bytes, self.key_records) = (0, 0);
        }
        self.key_bytes += bytes;
        self.key_records += 1;
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.sequence.to_be_bytes());
        // At a record each nanosecond it lasts for 584 years.
        self.sequence += 1;
        (&self.key, Nonce::assume_unique_for_key(nonce))
    }
}

fn key(chain: &Prk) -> LessSafeKey {
    let info: &[&[u8]] = &[b"leveret 3 key"];
    let expanded: hkdf::Okm<'_, _> = chain
        .expand(info, &AES_256_GCM)
        .expect("HKDF makes 32 bytes");
    LessSafeKey::new(UnboundKey::from(expanded))
}

/// Seals what one side says.
#[derive(Debug)]
pub struct Sealer(Direction);

impl Sealer {
    /// Makes a record, in place, of all that `bytes` has from `start` on: first as many bytes as
    /// a record's header has, then what is to be said.
    ///
    /// # Panics
    /// If there is no room for the header, or more than a record may have.
    pub fn seal(&mut self, bytes: &mut Vec<u8>, start: usize) {
        let length = bytes.len() - start - HEADER_BYTES;
        assert!(
            length <= PEER_RECORD_BYTES_MAX,
            "{length} bytes in a record"
        );
        let (header, plain) = bytes[start..].split_at_mut(HEADER_BYTES);
        header.copy_from_slice(&((length + TAG_BYTES) as u32).to_le_bytes());
        let (key, nonce) = self.0.next(length);
        let tag = key
            .seal_in_place_separate_tag(nonce, Aad::from(&*header), plain)
            .expect("a record is shorter than AES-GCM bears");
        bytes.extend_from_slice(tag.as_ref());
    }
}

/// Bytes that the beginning of a record lacks of its header, or behind that of the whole.
#[must_use]
pub fn lacking(begun: &[u8]) -> usize {
    match begun.split_first_chunk::<HEADER_BYTES>() {
        None => HEADER_BYTES - begun.len(),
        Some((header, rest)) => (u32::from_le_bytes(*header) as usize).saturating_sub(rest.len()),
    }
}

/// Opens what the other side says.
#[derive(Debug)]
pub struct Opener(Direction);

impl Opener {
    /// Opens, in place, the record that `bytes` begin with: what it says, and how many bytes it
    /// took; none if it is not there as a whole.
    ///
    /// # Errors
    /// See [`SealError`].
    pub fn open<'a>(
        &mut self,
        bytes: &'a mut [u8],
    ) -> Result<Option<(&'a [u8], usize)>, SealError> {
        let Some((header, rest)) = bytes.split_first_chunk_mut::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let claimed = u32::from_le_bytes(*header);
        let length = claimed as usize;
        if !(TAG_BYTES..=PEER_RECORD_BYTES_MAX + TAG_BYTES).contains(&length) {
            return Err(SealError::Length(claimed));
        }
        let Some(sealed) = rest.get_mut(..length) else {
            return Ok(None);
        };
        let (key, nonce) = self.0.next(length - TAG_BYTES);
        let plain = key
            .open_in_place(nonce, Aad::from(&*header), sealed)
            .map_err(|ring::error::Unspecified| SealError::Broken)?;
        Ok(Some((plain, HEADER_BYTES + length)))
    }
}

/// Both sides of one connection that share all they need.
#[cfg(test)]
pub(super) fn pair() -> (Session, Session) {
    let shared = hkdf::Salt::new(HKDF_SHA256, b"secret").extract(b"agreed");
    (
        Session::new(&shared, b"transcript", Side::Dialer),
        Session::new(&shared, b"transcript", Side::Acceptor),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sealer: &mut Sealer, text: &[u8]) -> Vec<u8> {
        let mut bytes = [&[0; HEADER_BYTES], text].concat();
        sealer.seal(&mut bytes, 0);
        bytes
    }

    /// What the records say, up to the first that does not open.
    fn said(opener: &mut Opener, records: &[Vec<u8>]) -> (Vec<Vec<u8>>, Result<(), SealError>) {
        let mut bytes = records.concat();
        let (mut at, mut said) = (0, Vec::new());
        loop {
            match opener.open(&mut bytes[at..]) {
                Ok(Some((plain, taken))) => {
                    said.push(plain.to_vec());
                    at += taken;
                }
                Ok(None) => return (said, Ok(())),
                Err(error) => return (said, Err(error)),
            }
        }
    }

    #[test]
    fn what_is_sealed_is_opened_by_the_other_side_alone() {
        let (mut dialer, mut acceptor) = pair();
        let longest = vec![7; PEER_RECORD_BYTES_MAX];
        for text in [&b"one"[..], b"", &longest] {
            let sealed = record(&mut dialer.sealer, text);
            assert!(text.len() < 3 || !sealed.windows(3).any(|bytes| bytes == &text[..3]));
            let opened = said(&mut acceptor.opener, &[sealed]);
            assert_eq!(opened, (vec![text.to_vec()], Ok(())));
        }
        // Its own words, sent back to it.
        let echoed = record(&mut acceptor.sealer, b"echo");
        let opened = said(&mut acceptor.opener, &[echoed]);
        assert_eq!(opened, (vec![], Err(SealError::Broken)));
    }

    #[test]
    fn keys_differ_by_secret_agreement_and_handshake() {
        let records = [
            (&b"secret"[..], &b"agreed"[..], &b"transcript"[..]),
            (b"Secret", b"agreed", b"transcript"),
            (b"secret", b"Agreed", b"transcript"),
            (b"secret", b"agreed", b"Transcript"),
        ]
        .map(|(secret, agreed, transcript)| {
            let shared = hkdf::Salt::new(HKDF_SHA256, secret).extract(agreed);
            let mut session = Session::new(&shared, transcript, Side::Dialer);
            record(&mut session.sealer, b"the same text")
        });
        for other in &records[1..] {
            let opened = said(&mut pair().1.opener, std::slice::from_ref(other));
            assert_eq!(opened, (vec![], Err(SealError::Broken)));
        }
        let opened = said(&mut pair().1.opener, &records[..1]);
        assert_eq!(opened, (vec![b"the same text".to_vec()], Ok(())));
    }

    #[test]
    fn every_flipped_bit_is_noticed_and_says_nothing() {
        let good = record(&mut pair().0.sealer, b"payload");
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let (said, result) = said(&mut pair().1.opener, &[bad]);
            assert!(said.is_empty(), "bit {bit}: {said:?}");
            // A longer length waits for bytes that do not come.
            assert!(result.is_err() || bit < 32, "bit {bit}");
        }
    }

    #[test]
    fn what_is_replayed_reordered_or_dropped_ends_what_is_said() {
        let mut sealer = pair().0.sealer;
        let [a, b, c] = [b"a", b"b", b"c"].map(|text| record(&mut sealer, text));
        let broken = Err(SealError::Broken);
        let cases: [(&[&Vec<u8>], &[&str]); 4] = [
            (&[&a, &a, &b], &["a"]),
            (&[&b, &a, &c], &[]),
            (&[&a, &c], &["a"]),
            (&[&a, &b, &a], &["a", "b"]),
        ];
        for (records, expected) in cases {
            let records: Vec<Vec<u8>> = records.iter().map(|record| record.to_vec()).collect();
            let expected = expected.iter().map(|text| text.as_bytes().to_vec());
            assert_eq!(
                said(&mut pair().1.opener, &records),
                (expected.collect(), broken)
            );
        }
    }

    #[test]
    fn keys_are_renewed_on_both_sides_at_the_same_record() {
        let renewal = Renewal {
            bytes: 100,
            records: 5,
        };
        let (mut dialer, mut acceptor) = pair();
        dialer.sealer.0.renewal = renewal;
        acceptor.opener.0.renewal = renewal;
        let texts: Vec<Vec<u8>> = (0..200).map(|n| vec![n; usize::from(n) % 40]).collect();
        let records: Vec<Vec<u8>> = texts
            .iter()
            .map(|text| record(&mut dialer.sealer, text))
            .collect();
        assert_eq!(said(&mut acceptor.opener, &records), (texts, Ok(())));
        // Who stays with the first key opens no more than that has sealed.
        let (opened, result) = said(&mut pair().1.opener, &records);
        assert_eq!(opened.len(), 5);
        assert_eq!(result, Err(SealError::Broken));
    }

    #[test]
    fn a_length_beyond_the_bounds_is_refused_before_anything_comes() {
        let mut opener = pair().1.opener;
        for length in [0, 15, PEER_RECORD_BYTES_MAX + 17, u32::MAX as usize] {
            let claimed = u32::try_from(length).expect("32 bits");
            let error = opener.open(&mut claimed.to_le_bytes()).map(|_| ());
            assert_eq!(error, Err(SealError::Length(claimed)));
        }
        let longest = (PEER_RECORD_BYTES_MAX as u32 + 16).to_le_bytes();
        assert_eq!(opener.open(&mut longest.clone()), Ok(None));
    }
}
