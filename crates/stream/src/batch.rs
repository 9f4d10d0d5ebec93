//! The content of one publish: entries with their publishing ids, checked once and shared.

use crate::chunk::{ChunkError, Entry, first_entry};
use bytes::{BufMut, Bytes, BytesMut};

/// Which of the two forms of a Publish command the entries have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchForm {
    /// `(publishing id u64, entry)`, the entry a message or a sub-batch.
    Plain,
    /// `(publishing id u64, filter value string, entry)`: version 2 of the command. The value of a
    /// sub-batch is that of all of its messages.
    Filtered,
    /// `(filter value string, message)`, the publishing ids counting up from this one: what came by
    /// another protocol and goes to several streams, which number it differently.
    Numbered(u64),
}

/// Why bytes are no batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The entries are not as many as the command says, or one is not whole.
    #[error("the publish has other entries than it says")]
    Entries,
    /// A filter value with a length that cannot be.
    #[error("the publish has an entry whose filter value is malformed")]
    Filter,
}

/// Entries that are published together, in the bytes in which they came. Every entry is known to be
/// whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    form: BatchForm,
    entries: u32,
    bytes: Bytes,
}

/// One entry of a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published<'a> {
    /// What the publisher calls it.
    pub id: u64,
    /// What readers may filter by.
    pub filter: Option<&'a [u8]>,
    /// The entry, as it goes into a chunk.
    pub entry: Entry<'a>,
}

impl Batch {
    /// Checks the part of a Publish command after its count: exactly `entries` entries.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn parse(form: BatchForm, entries: u32, bytes: Bytes) -> Result<Self, BatchError> {
        let (mut rest, mut left) = (&bytes[..], entries);
        while !rest.is_empty() {
            left = left.checked_sub(1).ok_or(BatchError::Entries)?;
            (_, rest) = first(form, u64::from(entries - left - 1), rest)?;
        }
        if left > 0 {
            return Err(BatchError::Entries);
        }
        Ok(Self {
            form,
            entries,
            bytes,
        })
    }

    /// How many entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries as usize
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The same entries, sharing their bytes, under publishing ids that count up from `first`;
    /// unchanged unless it is of a [`SharedBatchBuilder`].
    #[must_use]
    pub fn numbered(&self, first: u64) -> Self {
        let form = match self.form {
            BatchForm::Numbered(_) => BatchForm::Numbered(first),
            form => form,
        };
        Self {
            form,
            ..self.clone()
        }
    }

    /// The form of its entries.
    #[must_use]
    pub const fn form(&self) -> BatchForm {
        self.form
    }

    /// Its entries as [`Self::parse`] takes them.
    #[must_use]
    pub const fn encoded(&self) -> &Bytes {
        &self.bytes
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = Published<'_>> {
        let (mut rest, mut at) = (&self.bytes[..], 0);
        std::iter::from_fn(move || {
            // The bytes were checked when the batch was made.
            let (published, behind) = first(self.form, at, rest).ok()?;
            (rest, at) = (behind, at + 1);
            Some(published)
        })
    }

    /// The publishing ids, in order.
    #[must_use]
    pub fn ids(&self) -> Vec<u64> {
        self.iter().map(|published| published.id).collect()
    }
}

/// The first entry of `bytes`, before which the batch has `at` others.
fn first(form: BatchForm, at: u64, bytes: &[u8]) -> Result<(Published<'_>, &[u8]), BatchError> {
    let (id, rest) = match form {
        BatchForm::Numbered(from) => (from.wrapping_add(at), bytes),
        BatchForm::Plain | BatchForm::Filtered => {
            let (id, rest) = bytes.split_first_chunk().ok_or(BatchError::Entries)?;
            (u64::from_be_bytes(*id), rest)
        }
    };
    let (filter, rest) = match form {
        BatchForm::Plain => (None, rest),
        BatchForm::Filtered | BatchForm::Numbered(_) => filter_value(rest)?,
    };
    let entry = first_entry(rest).map_err(|_: ChunkError| BatchError::Entries)?;
    let rest = &rest[entry.bytes.len()..];
    Ok((Published { id, filter, entry }, rest))
}

/// A string with a length of 16 bits, of which -1 stands for none.
fn filter_value(bytes: &[u8]) -> Result<(Option<&[u8]>, &[u8]), BatchError> {
    let (len, rest) = bytes.split_first_chunk().ok_or(BatchError::Entries)?;
    match i16::from_be_bytes(*len) {
        -1 => Ok((None, rest)),
        len => {
            let len = usize::try_from(len).map_err(|_| BatchError::Filter)?;
            let (value, rest) = rest.split_at_checked(len).ok_or(BatchError::Entries)?;
            Ok((Some(value), rest))
        }
    }
}

/// Makes a [`Batch`] of messages that came by another protocol.
#[derive(Debug, Default)]
pub struct BatchBuilder {
    entries: Gathered,
}

impl BatchBuilder {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message. A filter value beyond 32,767 bytes, or a message beyond 2 GiB, does not fit
    /// the format: false, and nothing is added.
    #[must_use]
    pub fn push(&mut self, id: u64, filter: Option<&[u8]>, message: &[u8]) -> bool {
        self.entries.push(Some(id), filter, message)
    }

    /// Messages so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.count as usize
    }

    /// Whether there is none yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.count == 0
    }

    /// The batch; the builder begins anew.
    #[must_use]
    pub fn take(&mut self) -> Batch {
        self.entries.take(BatchForm::Filtered)
    }
}

/// Makes a [`Batch`] of messages that came by another protocol and go to several streams: each
/// numbers them by [`Batch::numbered`], and all share the bytes.
#[derive(Debug, Default)]
pub struct SharedBatchBuilder {
    entries: Gathered,
}

impl SharedBatchBuilder {
    /// Adds a message; as [`BatchBuilder::push`].
    #[must_use]
    pub fn push(&mut self, filter: Option<&[u8]>, message: &[u8]) -> bool {
        self.entries.push(None, filter, message)
    }

    /// Messages so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.count as usize
    }

    /// Whether there is none yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.count == 0
    }

    /// The batch, numbered from 0; the builder begins anew.
    #[must_use]
    pub fn take(&mut self) -> Batch {
        self.entries.take(BatchForm::Numbered(0))
    }
}

/// Entries that are being put together, with their publishing ids or without.
#[derive(Debug, Default)]
struct Gathered {
    count: u32,
    bytes: BytesMut,
}

impl Gathered {
    fn push(&mut self, id: Option<u64>, filter: Option<&[u8]>, message: &[u8]) -> bool {
        let Ok(len) = i32::try_from(message.len()) else {
            return false;
        };
        let Ok(filter_len) = filter.map_or(Ok(-1), |value| i16::try_from(value.len())) else {
            return false;
        };
        if let Some(id) = id {
            self.bytes.put_u64(id);
        }
        self.bytes.put_i16(filter_len);
        self.bytes.put_slice(filter.unwrap_or_default());
        self.bytes.put_i32(len);
        self.bytes.put_slice(message);
        self.count += 1;
        true
    }

    fn take(&mut self, form: BatchForm) -> Batch {
        Batch {
            form,
            entries: std::mem::take(&mut self.count),
            bytes: self.bytes.split().freeze(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;

    fn plain(entries: &[(u64, &[u8])]) -> Vec<u8> {
        let one = |(id, body): &(u64, &[u8])| {
            let len = (body.len() as u32).to_be_bytes();
            [&id.to_be_bytes()[..], &len, body].concat()
        };
        entries.iter().flat_map(one).collect()
    }

    #[test]
    fn a_batch_has_exactly_the_entries_that_it_says() {
        let bytes = Bytes::from(plain(&[(7, b"a"), (8, b"bc")]));
        for (count, is_whole) in [
            (2, true),
            (1, false),
            (3, false),
            (0, false),
            (u32::MAX, false),
        ] {
            let batch = Batch::parse(BatchForm::Plain, count, bytes.clone());
            assert_eq!(batch.is_ok(), is_whole, "{count}");
        }
        for len in 0..bytes.len() {
            let batch = Batch::parse(BatchForm::Plain, 2, bytes.slice(..len));
            assert_eq!(batch, Err(BatchError::Entries), "{len}");
        }
        let batch = Batch::parse(BatchForm::Plain, 2, bytes).unwrap();
        assert_eq!(batch.ids(), [7, 8]);
        let bodies: Vec<_> = batch.iter().map(|p| p.entry.body.to_vec()).collect();
        assert_eq!(bodies, [b"a".to_vec(), b"bc".to_vec()]);
        assert_eq!(
            Batch::parse(BatchForm::Plain, 0, Bytes::new())
                .unwrap()
                .ids(),
            []
        );
    }

    #[test]
    fn what_is_built_is_what_is_parsed() {
        let mut builder = BatchBuilder::new();
        assert!(builder.push(1, Some(b"eu"), b"one"));
        assert!(builder.push(2, None, b""));
        assert!(!builder.push(3, Some(&[0; 32_768]), b""));
        assert!(builder.push(4, Some(&[1; 32_767]), b"four"));
        let batch = builder.take();
        assert!(builder.is_empty());
        let again = Batch::parse(BatchForm::Filtered, 3, batch.bytes.clone()).unwrap();
        assert_eq!(again, batch);
        let seen: Vec<_> = batch
            .iter()
            .map(|p| (p.id, p.filter.map(<[u8]>::len)))
            .collect();
        assert_eq!(seen, [(1, Some(2)), (2, None), (4, Some(32_767))]);
    }

    #[test]
    fn what_goes_to_several_streams_is_numbered_by_each_and_shared() {
        let mut builder = SharedBatchBuilder::default();
        assert!(builder.push(Some(b"eu"), b"one"));
        assert!(builder.push(None, b"two"));
        assert_eq!(builder.len(), 2);
        let batch = builder.take();
        assert!(builder.is_empty());
        let (here, there) = (batch.numbered(7), batch.numbered(1));
        assert_eq!((here.ids(), there.ids()), (vec![7, 8], vec![1, 2]));
        assert_eq!(here.bytes.as_ptr(), there.bytes.as_ptr());
        let seen: Vec<_> = here.iter().map(|p| (p.filter, p.entry.body)).collect();
        assert_eq!(seen, [(Some(&b"eu"[..]), &b"one"[..]), (None, b"two")]);
        let again = Batch::parse(BatchForm::Numbered(7), 2, here.bytes.clone());
        assert_eq!(again, Ok(here));
    }

    #[test]
    fn a_sub_batch_may_have_a_filter_value() {
        let id = 1_u64.to_be_bytes();
        let sub = [0x80, 0, 1, 0, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0, 1, b'x'];
        let plain = Bytes::from([&id[..], &sub].concat());
        assert!(Batch::parse(BatchForm::Plain, 1, plain).is_ok());
        let filtered = Bytes::from([&id[..], &[0, 1, b'f'], &sub].concat());
        let parsed = Batch::parse(BatchForm::Filtered, 1, filtered).unwrap();
        let found: Vec<_> = parsed.iter().map(|p| (p.filter, p.entry.bytes)).collect();
        assert_eq!(found, [(Some(&b"f"[..]), &sub[..])]);
        let negative = Bytes::from([&id[..], &(-2_i16).to_be_bytes(), &[0; 4]].concat());
        let parsed = Batch::parse(BatchForm::Filtered, 1, negative);
        assert_eq!(parsed, Err(BatchError::Filter));
    }
}
