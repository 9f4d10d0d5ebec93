//! Answers that are made piece by piece, while they are read: what an answer holds does not grow
//! with its length, and for a client that does not read no more is made than the next piece.

use crate::events::Events;
use crate::http::connection_limiter::Held;
use crate::priority::let_others_run;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::{Body, Frame, SizeHint};
use leveret_types::limits::{HTTP_PIECE_BYTES, HTTP_PIECE_ROWS};
use serde::Serialize;
use std::collections::VecDeque;
use std::fmt::{Debug, Formatter};
use std::future::Future;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::task::JoinHandle;

/// What compressing takes beside its input and output: a window, and tables of what was seen.
const GZIP_STATE_BYTES: usize = 256 * 1024;

/// Room of a piece beyond its length: its last row may be longer than what is left. Without it,
/// most pieces would be copied to twice the room.
const LAST_ROW_BYTES: usize = 4 * 1024;

/// Pieces that are made for one that is compressed at most, which may then be short, or have
/// nothing yet.
const GZIP_PIECES: usize = 4;

/// The rest of an answer: each piece is made while the one before it leaves.
pub struct Pieces {
    make: Box<dyn Iterator<Item = Bytes> + Send>,
    held_bytes: usize,
}

impl Pieces {
    /// What `make` makes. Between two pieces it holds about `held_bytes`.
    pub fn new(make: impl Iterator<Item = Bytes> + Send + 'static, held_bytes: usize) -> Self {
        let make = Box::new(make);
        Self { make, held_bytes }
    }

    /// Texts that are there already, one behind the other. What has left is freed.
    #[must_use]
    pub fn of_texts(texts: Vec<Vec<u8>>) -> Self {
        let held_bytes = texts.iter().map(Vec::len).sum();
        let mut texts = texts.into_iter();
        let make = move || {
            let mut out = texts.next()?;
            while out.len() < HTTP_PIECE_BYTES {
                let Some(text) = texts.next() else { break };
                out.extend_from_slice(&text);
            }
            Some(Bytes::from(out))
        };
        Self::new(std::iter::from_fn(make), held_bytes)
    }

    /// A JSON list of rows, a few of which are made at once; an empty batch is the end. `write`
    /// appends a row's text. Rows that are there wait for the next piece where they would make one
    /// longer than a piece is.
    pub fn of_rows<R: Send + 'static>(
        batch: impl FnMut() -> Vec<R> + Send + 'static,
        write: impl Fn(&R, &mut Vec<u8>) + Send + 'static,
        held_bytes: usize,
    ) -> Self {
        Self::of_framed_rows(ListFrame::list(), batch, write, held_bytes)
    }

    /// The same within what stands around the list.
    pub(crate) fn of_framed_rows<R: Send + 'static>(
        frame: ListFrame,
        mut batch: impl FnMut() -> Vec<R> + Send + 'static,
        write: impl Fn(&R, &mut Vec<u8>) + Send + 'static,
        held_bytes: usize,
    ) -> Self {
        let (mut open, mut close) = (Some(frame.open), Some(frame.close));
        let (mut rows, mut written) = (Vec::new().into_iter(), 0);
        let spare = SpareRoom::default();
        let make = move || {
            close.as_ref()?;
            let mut out = spare.take();
            out.extend(open.take().into_iter().flatten());
            let mut made = 0;
            while out.len() < HTTP_PIECE_BYTES && made < HTTP_PIECE_ROWS {
                if rows.as_slice().is_empty() {
                    rows = batch().into_iter();
                }
                let Some(row) = rows.next() else {
                    let close = close.take().into_iter();
                    out.extend(close.flat_map(|close| close(written)));
                    break;
                };
                let_others_run(made);
                if written > 0 {
                    out.push(b',');
                }
                write(&row, &mut out);
                (made, written) = (made + 1, written + 1);
            }
            Some(spare.piece(out))
        };
        Self::new(std::iter::from_fn(make), held_bytes)
    }

    /// The same, compressed while it is made.
    #[must_use]
    pub fn gzipped(mut self) -> Self {
        let held_bytes = self.held_bytes + GZIP_STATE_BYTES;
        let mut encoder = Some(GzEncoder::new(Vec::new(), Compression::fast()));
        let make = move || {
            let mut gzip = encoder.take()?;
            for _ in 0..GZIP_PIECES {
                if gzip.get_ref().len() >= HTTP_PIECE_BYTES {
                    break;
                }
                // A vector takes whatever is written to it.
                let written = match self.make.next() {
                    Some(piece) => gzip.write_all(&piece),
                    None => return gzip.finish().ok().map(Bytes::from),
                };
                written.ok()?;
            }
            let out = std::mem::take(gzip.get_mut());
            encoder = Some(gzip);
            Some(Bytes::from(out))
        };
        Self::new(std::iter::from_fn(make), held_bytes)
    }

    /// What the answer holds while it waits to be read, in bytes, beside a piece or two.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The answer in one piece, if it is that short; else its first pieces, and the rest.
    pub(crate) fn begin(mut self) -> Content {
        let Some(first) = self.make.next() else {
            return Form::Whole(None).into();
        };
        let form = match self.make.next() {
            None => Form::Whole(Some(first)),
            Some(second) => Form::Streamed {
                ready: [first, second].into(),
                rest: Rest::Waits(self),
            },
        };
        form.into()
    }
}

/// The room of an answer's pieces that have left, for the next ones: to ask the system for so much
/// again and again costs more than to write there. There is no more of it than pieces were there
/// at once.
#[derive(Clone, Default)]
struct SpareRoom(Arc<Mutex<Vec<Vec<u8>>>>);

impl SpareRoom {
    /// Room for a piece, with nothing in it.
    fn take(&self) -> Vec<u8> {
        let room = self.lock().pop();
        room.unwrap_or_else(|| Vec::with_capacity(HTTP_PIECE_BYTES + LAST_ROW_BYTES))
    }

    /// A piece, whose room is spare once nobody has it any more.
    fn piece(&self, bytes: Vec<u8>) -> Bytes {
        let spare = self.clone();
        Bytes::from_owner(Piece { bytes, spare })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Piece {
    bytes: Vec<u8>,
    spare: SpareRoom,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut room = std::mem::take(&mut self.bytes);
        // One that a long row made large is not kept.
        if room.capacity() <= 2 * HTTP_PIECE_BYTES {
            room.clear();
            self.spare.lock().push(room);
        }
    }
}

/// The texts around the rows of a list.
pub(crate) struct ListFrame {
    /// The one before the first row.
    pub(crate) open: Vec<u8>,
    /// The one behind the last, of so many.
    pub(crate) close: Box<dyn FnOnce(usize) -> Vec<u8> + Send>,
}

impl ListFrame {
    /// Those of a list that stands alone.
    pub(crate) fn list() -> Self {
        Self {
            open: b"[".to_vec(),
            close: Box::new(|_| b"]".to_vec()),
        }
    }
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.make.next()
    }
}

impl Debug for Pieces {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pieces")
            .field("held_bytes", &self.held_bytes)
            .finish_non_exhaustive()
    }
}

/// Appends a value's text. What answers are made of always has one, and a vector takes it.
pub(crate) fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value)
        .unwrap_or_else(|error| unreachable!("a value without a form in JSON: {error}"));
}

/// The body of an answer, and the room that it takes.
pub(crate) struct Content {
    form: Form,
    _held: Option<Held>,
}

enum Form {
    /// All of it, until it is taken.
    Whole(Option<Bytes>),
    /// What is ready, and what is to be made when that has left.
    Streamed { ready: VecDeque<Bytes>, rest: Rest },
    /// Events, until somebody has had enough.
    Live(Events),
}

/// Where the rest of a streamed answer is.
enum Rest {
    /// Nobody makes the next piece: the one before it has not been taken.
    Waits(Pieces),
    /// A worker makes the next piece, or has made it.
    IsMade(JoinHandle<Option<(Bytes, Pieces)>>),
    /// There is no more.
    Ended,
}

impl Content {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Form::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())).into()
    }

    /// Events as they come.
    pub(crate) fn live(events: Events) -> Self {
        Form::Live(events).into()
    }

    /// Bytes that it holds while it waits to be read.
    pub(crate) fn bytes(&self) -> usize {
        match &self.form {
            Form::Whole(bytes) => bytes.as_ref().map_or(0, Bytes::len),
            Form::Streamed { ready, rest } => {
                let held = match rest {
                    Rest::Waits(pieces) => pieces.held_bytes(),
                    Rest::IsMade(_) | Rest::Ended => 0,
                };
                held + ready.iter().map(Bytes::len).sum::<usize>()
            }
            Form::Live(_) => Events::HELD_BYTES,
        }
    }

    /// The same with the room that it takes.
    pub(crate) fn holding(self, held: Held) -> Self {
        match self.form {
            // The server drops the body as soon as it has its last bytes, which is long before a
            // slow client does: they take the room with them.
            Form::Whole(Some(bytes)) => Form::Whole(Some(held.around(bytes))).into(),
            form => Self {
                form,
                _held: Some(held),
            },
        }
    }
}

/// Bytes that take room until nobody has them any more.
struct HeldBytes {
    bytes: Bytes,
    _held: Held,
}

impl Held {
    /// These bytes, which take the room until nobody has them any more.
    pub(crate) fn around(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(HeldBytes { bytes, _held: self })
    }
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Form> for Content {
    fn from(form: Form) -> Self {
        Self { form, _held: None }
    }
}

impl Rest {
    /// Has a worker make the next piece, unless one does already.
    fn begin(&mut self) {
        if let Self::Waits(_) = self
            && let Self::Waits(mut pieces) = std::mem::replace(self, Self::Ended)
        {
            let make = move || pieces.next().map(|piece| (piece, pieces));
            *self = Self::IsMade(tokio::task::spawn_blocking(make));
        }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        self.begin();
        let Self::IsMade(worker) = self else {
            return Poll::Ready(None);
        };
        match ready!(Pin::new(worker).poll(context)) {
            Ok(Some((piece, pieces))) => {
                *self = Self::Waits(pieces);
                Poll::Ready(Some(Ok(piece)))
            }
            Ok(None) => {
                *self = Self::Ended;
                Poll::Ready(None)
            }
            Err(error) => {
                *self = Self::Ended;
                // Cut short visibly: the client must not take what it has for all.
                Poll::Ready(Some(Err(io::Error::other(error))))
            }
        }
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = match &mut self.form {
            Form::Whole(bytes) => bytes.take().map(Ok),
            Form::Streamed { ready, rest } => {
                let piece = match ready.pop_front() {
                    Some(piece) => Some(Ok(piece)),
                    None => ready!(rest.poll_next(context)),
                };
                if ready.is_empty() {
                    rest.begin();
                }
                piece
            }
            Form::Live(events) => ready!(events.poll_next(context)).map(Ok),
        };
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.form {
            Form::Whole(bytes) => bytes.is_none(),
            Form::Streamed { ready, rest } => ready.is_empty() && matches!(rest, Rest::Ended),
            Form::Live(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.form {
            Form::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Form::Streamed { .. } | Form::Live(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::connection_limiter::ConnectionLimiter;
    use serde_json::{Value, json};
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    fn rows(count: usize) -> Pieces {
        let mut left = (0..count).map(|n| json!({"n": n}));
        let write = |row: &Value, out: &mut Vec<u8>| write_json(out, row);
        Pieces::of_rows(move || left.by_ref().take(7).collect(), write, 0)
    }

    fn text(pieces: Pieces) -> Vec<u8> {
        pieces.flatten().collect()
    }

    #[test]
    fn a_whole_answer_takes_room_until_its_bytes_have_left() {
        let limiter = ConnectionLimiter::new();
        let (permit, _leave) = limiter.admit(Ipv4Addr::LOCALHOST.into());
        let held = permit.hold(7).expect("room");
        let mut content = Content::whole("{\"a\":1}").holding(held);
        assert_eq!(content.size_hint().exact(), Some(7));
        let frame = Pin::new(&mut content).poll_frame(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Some(Ok(frame))) = frame else {
            panic!("no bytes");
        };
        drop(content);
        assert_eq!(limiter.held_bytes(), 7, "nobody has read them");
        drop(frame);
        assert_eq!(limiter.held_bytes(), 0);
    }

    #[test]
    fn rows_that_are_there_wait_where_a_piece_is_long_enough() {
        const ROW_BYTES: usize = 10_000;
        let mut batches = vec![vec![b'x'; 100]].into_iter();
        let write = |row: &u8, out: &mut Vec<u8>| out.extend([*row; ROW_BYTES]);
        let pieces = Pieces::of_rows(move || batches.next().unwrap_or_default(), write, 0);
        let lengths: Vec<usize> = pieces.map(|piece| piece.len()).collect();
        let most = HTTP_PIECE_BYTES + ROW_BYTES;
        assert!(lengths.iter().all(|length| *length <= most), "{lengths:?}");
        // With the commas between them, and what stands around.
        assert_eq!(lengths.iter().sum::<usize>(), 100 * (ROW_BYTES + 1) + 1);
    }

    #[test]
    fn a_piece_is_made_where_one_that_has_left_was() {
        let mut pieces = rows(50_000);
        let first = pieces.next().expect("a piece");
        let second = pieces.next().expect("a piece");
        let place = first.as_ptr();
        assert_ne!(second.as_ptr(), place);
        drop(first);
        let third = pieces.next().expect("a piece");
        assert_eq!(third.as_ptr(), place);
        assert_ne!(pieces.next().expect("a piece").as_ptr(), place);
    }

    #[test]
    fn short_rows_are_made_a_bounded_number_at_a_time() {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let batch = move || vec![count.fetch_add(1, Ordering::Relaxed)];
        let mut pieces = Pieces::of_rows(batch, |_, out| out.push(b'0'), 0);
        for piece in 1..=3 {
            assert!(pieces.next().is_some());
            assert_eq!(made.load(Ordering::Relaxed), piece * HTTP_PIECE_ROWS);
        }
    }

    #[test]
    fn short_rows_are_made_a_bounded_number_at_a_time_also_where_they_are_compressed() {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let batch = move || vec![count.fetch_add(1, Ordering::Relaxed)];
        let mut pieces = Pieces::of_rows(batch, |_, out| out.push(b'0'), 0).gzipped();
        for piece in 1..=3 {
            assert!(pieces.next().is_some());
            let most = piece * GZIP_PIECES * HTTP_PIECE_ROWS;
            assert_eq!(made.load(Ordering::Relaxed), most);
        }
    }

    #[test]
    fn one_piece_is_made_while_the_one_before_it_leaves_and_no_more() {
        let (sender, made) = std::sync::mpsc::channel();
        let mut numbers = 0..10_u8;
        let make = std::iter::from_fn(move || {
            let number = numbers.next()?;
            sender.send(number).expect("somebody counts");
            Some(Bytes::from(vec![number]))
        });
        let mut content = Pieces::new(make, 0).begin();
        let wait = std::time::Duration::from_secs(10);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime");
        let mut taken = || {
            let frame = std::future::poll_fn(|context| Pin::new(&mut content).poll_frame(context));
            let frame = runtime.block_on(frame).expect("a piece");
            frame.expect("a good one").into_data()
        };
        assert_eq!(made.try_iter().collect::<Vec<_>>(), [0, 1]);
        taken().expect("data");
        assert_eq!(made.try_iter().count(), 0, "one is there still");
        for number in 2..5 {
            taken().expect("data");
            assert_eq!(made.recv_timeout(wait), Ok(number));
        }
        assert_eq!(made.try_iter().count(), 0);
    }

    #[test]
    fn rows_make_one_list_however_many_there_are() {
        for count in [0, 1, 7, 8, 50_000] {
            let list: Value = serde_json::from_slice(&text(rows(count))).expect("JSON");
            let list = list.as_array().expect("a list");
            assert_eq!(list.len(), count);
            assert!(list.iter().enumerate().all(|(at, row)| row["n"] == at));
        }
    }

    #[test]
    fn pieces_are_as_long_as_the_bound_and_a_batch() {
        let batch = 7 * r#"{"n":50000},"#.len();
        assert!(rows(50_000).all(|piece| piece.len() <= HTTP_PIECE_BYTES + batch));
        let half = vec![b'x'; HTTP_PIECE_BYTES / 2];
        let texts = Pieces::of_texts(vec![half; 5]);
        assert_eq!(texts.held_bytes(), HTTP_PIECE_BYTES / 2 * 5);
        let lengths: Vec<usize> = texts.map(|piece| piece.len()).collect();
        assert_eq!(
            lengths,
            [HTTP_PIECE_BYTES, HTTP_PIECE_BYTES, HTTP_PIECE_BYTES / 2]
        );
    }
}
