//! What the bodies of requests hold at a port, while they arrive and while they are carried out:
//! one bound for all of them, and who makes room when it is reached.
//!
//! The first bytes of each body are free, so that short requests never wait. Beyond them a body
//! has room before more of it is read; who finds none is not read until there is some, and only the
//! oldest may go beyond the bound, so that of many halves one can always become whole. While
//! somebody waits, who sends too slowly is given up, and so is who holds most, with several bodies.
//!
//! Invariant: what is held is at most the bound and the largest body.

use crate::http::reply::ApiError;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Bytes, Frame, Incoming};
use leveret_auth::network_of;
use leveret_types::limits::{
    HTTP_BODIES_BYTES_MAX, HTTP_BODY_BYTES_FREE, HTTP_BODY_BYTES_MAX, HTTP_BODY_BYTES_PER_MS_MIN,
    HTTP_BODY_CHECK_MS, HTTP_BODY_MS_MAX, HTTP_BODY_SILENCE_MS, HTTP_BODY_VALUE_BYTES,
    HTTP_BODY_VALUES_MAX, HTTP_BODY_WAIT_MS_MAX,
};
use std::collections::{BTreeMap, HashMap};
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Within this a body must have come, and a second more for each [`BODY_BYTES_PER_SECOND`] of its
/// bound.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The slowest body that is waited for.
const BODY_BYTES_PER_SECOND: u64 = 1_024;
/// Bytes of a body that arrive before they count for its pace.
const PACE_BYTES: u64 = 4_096;

/// The bodies of one port.
#[derive(Debug)]
pub(crate) struct Bodies {
    bytes_max: usize,
    begun: Instant,
    kept: Mutex<Kept>,
}

/// Bodies that have asked for room, the oldest first.
#[derive(Debug, Default)]
struct Kept {
    next: u64,
    bodies: BTreeMap<u64, Body>,
    bytes: usize,
    of_users: HashMap<Arc<str>, usize>,
    of_networks: HashMap<IpAddr, usize>,
    looked_ms: u64,
}

/// A body, by whose it is and how far it has come.
#[derive(Debug)]
struct Body {
    user: Arc<str>,
    network: IpAddr,
    bytes: usize,
    /// When it first found no room.
    waits_since_ms: Option<u64>,
    stage: Stage,
    told: Arc<Notify>,
}

#[derive(Debug, PartialEq)]
enum Stage {
    /// More of it must have come by then, if somebody waits.
    Arrives { due_ms: u64 },
    /// It is not read until it has room for so many bytes more.
    Waits { more: usize },
    /// All of it is there.
    Whole,
    /// It has made room for others.
    GivenUp(ApiError),
}

impl Body {
    /// Whether it can be given up.
    const fn is_unfinished(&self) -> bool {
        matches!(self.stage, Stage::Arrives { .. } | Stage::Waits { .. })
    }

    /// How many more bytes it waits for.
    const fn more(&self) -> Option<usize> {
        match self.stage {
            Stage::Waits { more } => Some(more),
            _ => None,
        }
    }
}

impl Kept {
    fn add(&mut self, user: Arc<str>, network: IpAddr, told: Arc<Notify>) -> u64 {
        let id = self.next;
        self.next += 1;
        let body = Body {
            user,
            network,
            bytes: 0,
            waits_since_ms: None,
            stage: Stage::Arrives { due_ms: 0 },
            told,
        };
        self.bodies.insert(id, body);
        id
    }

    /// Has a body wait for so much more, unless it can have that at once.
    fn ask(&mut self, id: u64, more: usize, bytes_max: usize, now_ms: u64) {
        let Some(body) = self.bodies.get_mut(&id).filter(|b| b.is_unfinished()) else {
            return;
        };
        body.stage = Stage::Waits { more };
        self.settle(bytes_max, now_ms);
        if let Some(body) = self.bodies.get_mut(&id)
            && body.more().is_some()
        {
            body.waits_since_ms.get_or_insert(now_ms);
            self.look(bytes_max, now_ms);
        }
    }

    /// What all bodies of the same user hold, and all of the same address: where a proxy stands
    /// before the node, or many use one name, one of both still tells them apart.
    fn crowd(&self, body: &Body) -> usize {
        let of_user = self.of_users.get(&body.user).copied();
        let of_network = self.of_networks.get(&body.network).copied();
        of_user.unwrap_or(0) + of_network.unwrap_or(0)
    }

    /// The next to have room: of those who wait the one with the least crowd.
    fn first_waiting(&self) -> Option<(u64, usize)> {
        let waiting = self.bodies.iter().filter_map(|(id, body)| {
            let more = body.more()?;
            Some((self.crowd(body), *id, more))
        });
        waiting.min().map(|(_, id, more)| (id, more))
    }

    /// The oldest of those that are not whole, if it waits and no other is beyond the bound.
    fn oldest_waiting(&self, bytes_max: usize) -> Option<(u64, usize)> {
        let (id, body) = self.bodies.iter().find(|(_, body)| body.is_unfinished())?;
        let more = body.more()?;
        (self.bytes - body.bytes <= bytes_max).then_some((*id, more))
    }

    /// Gives room to whom it is due.
    fn settle(&mut self, bytes_max: usize, now_ms: u64) {
        while let Some((id, more)) = self.first_waiting()
            && self.bytes.saturating_add(more) <= bytes_max
        {
            self.grant(id, more, now_ms);
        }
        if let Some((id, more)) = self.oldest_waiting(bytes_max) {
            self.grant(id, more, now_ms);
        }
    }

    fn grant(&mut self, id: u64, more: usize, now_ms: u64) {
        let due_ms = now_ms + HTTP_BODY_SILENCE_MS;
        let stage = Stage::Arrives { due_ms };
        let Some(body) = self.bodies.get_mut(&id) else {
            return;
        };
        body.bytes += more;
        body.stage = stage;
        body.told.notify_one();
        self.bytes += more;
        *self.of_users.entry(Arc::clone(&body.user)).or_default() += more;
        *self.of_networks.entry(body.network).or_default() += more;
    }

    /// Takes its room from a body.
    fn release(&mut self, id: u64) {
        let Some(body) = self.bodies.get_mut(&id) else {
            return;
        };
        let bytes = std::mem::take(&mut body.bytes);
        self.bytes -= bytes;
        if let Some(of_user) = self.of_users.get_mut(&body.user) {
            *of_user -= bytes;
            if *of_user == 0 {
                self.of_users.remove(&body.user);
            }
        }
        if let Some(of_network) = self.of_networks.get_mut(&body.network) {
            *of_network -= bytes;
            if *of_network == 0 {
                self.of_networks.remove(&body.network);
            }
        }
    }

    /// Who has not sent what was due: of the greatest crowd, and there for longest not.
    fn late(&self, now_ms: u64) -> Option<u64> {
        let late = self.bodies.iter().filter_map(|(id, body)| {
            let Stage::Arrives { due_ms } = body.stage else {
                return None;
            };
            let late_ms = now_ms.checked_sub(due_ms).filter(|ms| *ms > 0)?;
            Some((self.crowd(body), late_ms, *id))
        });
        late.max().map(|(_, _, id)| id)
    }

    /// Who makes room for this one, which has waited for a while, though it sends: the youngest of
    /// a user or an address that holds more than half of all room with several bodies.
    fn crowded(&self, waiting: u64, bytes_max: usize, now_ms: u64) -> Option<u64> {
        let first = self.bodies.get(&waiting)?;
        let more = first.more()?;
        // Having waited once it need not wait as long for each part.
        if now_ms < first.waits_since_ms? + HTTP_BODY_SILENCE_MS {
            return None;
        }
        let is_much = |held: Option<&usize>, own: usize| {
            held.is_some_and(|held| *held > bytes_max / 2 && *held > own)
        };
        let least = self.crowd(first).saturating_add(more);
        let crowded = self.bodies.iter().filter(|(_, body)| {
            let of_user = self.of_users.get(&body.user);
            let of_network = self.of_networks.get(&body.network);
            let by_user = body.user != first.user && is_much(of_user, body.bytes);
            let by_network = body.network != first.network && is_much(of_network, body.bytes);
            body.bytes > 0
                && body.is_unfinished()
                && (by_user || by_network)
                && self.crowd(body) > least
        });
        let crowded = crowded.map(|(id, body)| (self.crowd(body), *id));
        crowded.max().map(|(_, id)| id)
    }

    fn give_up(&mut self, id: u64, error: ApiError) {
        self.release(id);
        if let Some(body) = self.bodies.get_mut(&id) {
            body.stage = Stage::GivenUp(error);
            body.told.notify_one();
        }
    }

    /// Has room made for those who wait.
    fn look(&mut self, bytes_max: usize, now_ms: u64) {
        self.looked_ms = now_ms;
        loop {
            self.settle(bytes_max, now_ms);
            let Some((waiting, _)) = self.first_waiting() else {
                return;
            };
            if let Some(late) = self.late(now_ms) {
                self.give_up(late, ApiError::TooSlow);
            } else if let Some(crowded) = self.crowded(waiting, bytes_max, now_ms) {
                self.give_up(crowded, ApiError::NoRoom);
            } else {
                return;
            }
        }
    }

    /// Notes that so many bytes of a body have come.
    fn came(&mut self, id: u64, bytes: u64, now_ms: u64) {
        let Some(Body {
            stage: Stage::Arrives { due_ms },
            ..
        }) = self.bodies.get_mut(&id)
        else {
            return;
        };
        let next_ms = (*due_ms).max(now_ms) + bytes / HTTP_BODY_BYTES_PER_MS_MIN;
        // Who sends much at once buys no silence with it.
        *due_ms = next_ms.min(now_ms + HTTP_BODY_SILENCE_MS);
    }
}

impl Bodies {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            bytes_max: HTTP_BODIES_BYTES_MAX,
            begun: Instant::now(),
            kept: Mutex::default(),
        })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Each change is whole before anything can panic.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Reads a body of `most` bytes at most, at the least speed that is borne.
    pub(crate) async fn read(
        self: &Arc<Self>,
        body: Incoming,
        most: usize,
        (user, peer): (&str, IpAddr),
    ) -> Result<Whole, ApiError> {
        if body.size_hint().lower() > most as u64 {
            return Err(ApiError::TooLarge(most));
        }
        let expected = body.size_hint().exact().unwrap_or(most as u64);
        let time = BODY_TIMEOUT + Duration::from_secs(expected / BODY_BYTES_PER_SECOND);
        let room = Room {
            of: Arc::clone(self),
            user: user.into(),
            network: network_of(peer),
            id: None,
            bytes: 0,
            came: 0,
            told: Arc::default(),
        };
        let expected = usize::try_from(expected).unwrap_or(most);
        let reading = room.collect(body, expected, most);
        let time = time.min(Duration::from_millis(HTTP_BODY_MS_MAX));
        match tokio::time::timeout(time, reading).await {
            Err(_) => Err(ApiError::TooSlow),
            Ok(result) => result,
        }
    }
}

/// A body that is there, and the room that it takes until it is dropped.
#[derive(Debug)]
pub(crate) struct Whole {
    bytes: Vec<u8>,
    _room: Room,
}

impl Deref for Whole {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The room of one body.
#[derive(Debug)]
struct Room {
    of: Arc<Bodies>,
    user: Arc<str>,
    network: IpAddr,
    /// None until it asks for more than what is free.
    id: Option<u64>,
    bytes: usize,
    /// What has come since that was last noted.
    came: u64,
    told: Arc<Notify>,
}

impl Room {
    async fn collect(
        mut self,
        body: Incoming,
        expected: usize,
        most: usize,
    ) -> Result<Whole, ApiError> {
        // Definitions are as many as they are: who may import them is trusted with that.
        let values_max = match most > HTTP_BODY_BYTES_MAX {
            true => usize::MAX,
            false => HTTP_BODY_VALUES_MAX,
        };
        let (mut body, mut bytes) = (pin!(body), Vec::new());
        let mut values = Values::default();
        while let Some(frame) = self.unless_given_up(body.frame()).await? {
            let broken = |_| ApiError::BadRequest("the body is broken".to_owned());
            let Ok(part) = frame.map_err(broken).map(Frame::into_data)? else {
                continue;
            };
            if part.len() > most - bytes.len() {
                return Err(ApiError::TooLarge(most));
            }
            values.count(&part);
            if values.number > values_max {
                let text = format!("the body has more than {values_max} values");
                return Err(ApiError::BadRequest(text));
            }
            self.keep(&mut bytes, part, expected, values.number).await?;
        }
        self.is_whole()?;
        Ok(Whole { bytes, _room: self })
    }

    /// Keeps a part of the body, when there is room for it and for what it becomes. The part's own
    /// memory is let go: a few bytes may hold a whole buffer of the socket's.
    async fn keep(
        &mut self,
        bytes: &mut Vec<u8>,
        part: Bytes,
        expected: usize,
        values: usize,
    ) -> Result<(), ApiError> {
        let length = bytes.len() + part.len();
        let capacity = match length > bytes.capacity() {
            true => {
                let ahead = bytes.len() + (bytes.len() / 4).max(HTTP_BODY_BYTES_FREE);
                ahead.min(expected).max(length)
            }
            false => bytes.capacity(),
        };
        let becomes = values.saturating_mul(HTTP_BODY_VALUE_BYTES);
        // One that becomes more than all room must not keep others out.
        let most = self.of.bytes_max.max(capacity);
        let counted = capacity.saturating_add(becomes).min(most);
        self.hold(counted.saturating_sub(HTTP_BODY_BYTES_FREE))
            .await?;
        bytes.reserve_exact(capacity - bytes.len());
        bytes.extend_from_slice(&part);
        self.came += part.len() as u64;
        if let Some(id) = self.id
            && self.came >= PACE_BYTES
        {
            let came = std::mem::take(&mut self.came);
            let now_ms = self.of.now_ms();
            self.of.kept().came(id, came, now_ms);
        }
        Ok(())
    }

    /// Waits until it holds so many bytes.
    async fn hold(&mut self, bytes: usize) -> Result<(), ApiError> {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return Ok(());
        }
        let id = self.ask(more);
        let until = tokio::time::Instant::now() + Duration::from_millis(HTTP_BODY_WAIT_MS_MAX);
        loop {
            match self.of.kept().bodies.get(&id).map(|body| &body.stage) {
                Some(Stage::GivenUp(error)) => return Err(error.clone()),
                Some(Stage::Waits { .. }) => {}
                _ => break,
            }
            if tokio::time::Instant::now() >= until {
                return Err(ApiError::NoRoom);
            }
            let look = Duration::from_millis(HTTP_BODY_CHECK_MS);
            let _ = tokio::time::timeout(look, self.told.notified()).await;
            let now_ms = self.of.now_ms();
            let mut kept = self.of.kept();
            if now_ms >= kept.looked_ms + HTTP_BODY_CHECK_MS {
                kept.look(self.of.bytes_max, now_ms);
            }
        }
        self.bytes = bytes;
        Ok(())
    }

    fn ask(&mut self, more: usize) -> u64 {
        let now_ms = self.of.now_ms();
        let mut kept = self.of.kept();
        let id = *self.id.get_or_insert_with(|| {
            let (user, told) = (Arc::clone(&self.user), Arc::clone(&self.told));
            kept.add(user, self.network, told)
        });
        kept.ask(id, more, self.of.bytes_max, now_ms);
        id
    }

    /// What comes of `work`, unless the body is given up before.
    async fn unless_given_up<T>(&self, work: impl Future<Output = T>) -> Result<T, ApiError> {
        let mut work = pin!(work);
        loop {
            if let Some(error) = self.given_up() {
                return Err(error);
            }
            let mut told = pin!(self.told.notified());
            let done = poll_fn(|context| match work.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending => Pin::new(&mut told).poll(context).map(|()| None),
            });
            if let Some(done) = done.await {
                return Ok(done);
            }
        }
    }

    fn given_up(&self) -> Option<ApiError> {
        let kept = self.of.kept();
        match &kept.bodies.get(&self.id?)?.stage {
            Stage::GivenUp(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// Notes that nothing more is to come.
    fn is_whole(&self) -> Result<(), ApiError> {
        if let Some(error) = self.given_up() {
            return Err(error);
        }
        let Some(id) = self.id else {
            return Ok(());
        };
        let now_ms = self.of.now_ms();
        let mut kept = self.of.kept();
        if let Some(body) = kept.bodies.get_mut(&id) {
            body.stage = Stage::Whole;
        }
        // Another one is the oldest now.
        kept.settle(self.of.bytes_max, now_ms);
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let Some(id) = self.id else {
            return;
        };
        let now_ms = self.of.now_ms();
        let mut kept = self.of.kept();
        kept.release(id);
        kept.bodies.remove(&id);
        kept.settle(self.of.bytes_max, now_ms);
    }
}

/// How many values a text of JSON has, about: a few bytes of it can become very many once it is
/// parsed.
#[derive(Debug, Default)]
struct Values {
    number: usize,
    in_text: bool,
    escaped: bool,
}

impl Values {
    fn count(&mut self, part: &[u8]) {
        for byte in part {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                b'{' | b'[' | b',' if !self.in_text => self.number += 1,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 100;

    fn waits(kept: &mut Kept, user: &str, host: u8, more: usize, now_ms: u64) -> u64 {
        let network = IpAddr::from([192, 0, 2, host]);
        let id = kept.add(user.into(), network, Arc::default());
        kept.ask(id, more, MAX, now_ms);
        id
    }

    fn stage(kept: &Kept, id: u64) -> &Stage {
        &kept.bodies.get(&id).expect("a body").stage
    }

    fn arrives(kept: &Kept, id: u64) -> bool {
        matches!(stage(kept, id), Stage::Arrives { .. })
    }

    fn is_slow(kept: &Kept, id: u64) -> bool {
        *stage(kept, id) == Stage::GivenUp(ApiError::TooSlow)
    }

    #[test]
    fn bodies_have_room_to_the_bound_and_one_byte_more_waits_for_it() {
        let mut kept = Kept::default();
        let first = waits(&mut kept, "u", 1, MAX - 1, 0);
        let second = waits(&mut kept, "u", 1, 1, 0);
        assert!(arrives(&kept, first) && arrives(&kept, second));
        assert_eq!(kept.bytes, MAX);
        let third = waits(&mut kept, "u", 1, 1, 0);
        assert!(!arrives(&kept, third), "one byte beyond the bound");
        kept.release(second);
        kept.bodies.remove(&second);
        kept.settle(MAX, 0);
        assert!(arrives(&kept, third));
        for id in [first, third] {
            kept.release(id);
        }
        assert_eq!(kept.bytes, 0);
        assert!(kept.of_users.is_empty() && kept.of_networks.is_empty());
    }

    #[test]
    fn who_sends_too_slowly_makes_room_only_while_others_wait_and_of_the_greatest_crowd_first() {
        let mut kept = Kept::default();
        let alone = waits(&mut kept, "a", 1, 20, 0);
        let many: Vec<u64> = (0..4).map(|_| waits(&mut kept, "b", 2, 20, 0)).collect();
        let late_ms = HTTP_BODY_SILENCE_MS + 1;
        kept.look(MAX, late_ms);
        assert!(arrives(&kept, alone) && many.iter().all(|id| arrives(&kept, *id)));
        // All but the last send nothing.
        kept.came(many[3], 1 << 20, late_ms - 1);
        let next = waits(&mut kept, "c", 3, 21, late_ms - 1);
        assert!(!arrives(&kept, next), "nobody is late yet");
        kept.look(MAX, late_ms);
        assert!(arrives(&kept, next));
        let slow = many.iter().filter(|id| is_slow(&kept, **id)).count();
        assert_eq!(slow, 2, "no more than have to");
        assert!(arrives(&kept, many[3]) && arrives(&kept, alone));
    }

    #[test]
    fn a_drip_buys_no_time_and_neither_does_what_came_at_once() {
        let mut kept = Kept::default();
        let id = waits(&mut kept, "a", 1, MAX, 0);
        kept.came(id, 10_000_000, 0);
        for now_ms in 0..HTTP_BODY_SILENCE_MS {
            kept.came(id, HTTP_BODY_BYTES_PER_MS_MIN - 1, now_ms);
        }
        assert_eq!(kept.late(HTTP_BODY_SILENCE_MS), None);
        assert_eq!(kept.late(HTTP_BODY_SILENCE_MS + 1), Some(id));
        for now_ms in 0..3 * HTTP_BODY_SILENCE_MS {
            kept.came(id, HTTP_BODY_BYTES_PER_MS_MIN, now_ms);
            assert_eq!(kept.late(now_ms), None);
        }
    }

    #[test]
    fn of_bodies_that_all_wait_for_one_another_the_oldest_becomes_whole() {
        let mut kept = Kept::default();
        let both = [1, 2].map(|host| waits(&mut kept, "u", host, MAX / 2, 0));
        kept.ask(both[1], MAX, MAX, 1);
        assert!(!arrives(&kept, both[1]));
        kept.ask(both[0], MAX, MAX, 2);
        assert!(arrives(&kept, both[0]), "the oldest goes beyond the bound");
        // While it is carried out the next one does not go beyond it too.
        kept.bodies.get_mut(&both[0]).expect("a body").stage = Stage::Whole;
        kept.settle(MAX, 3);
        assert!(!arrives(&kept, both[1]));
        kept.release(both[0]);
        kept.bodies.remove(&both[0]);
        kept.settle(MAX, 4);
        assert!(arrives(&kept, both[1]), "alone it may be larger");
    }

    #[test]
    fn who_holds_most_of_the_room_with_several_bodies_makes_room_though_it_sends() {
        let mut kept = Kept::default();
        let many: Vec<u64> = (0..4).map(|_| waits(&mut kept, "b", 2, 25, 0)).collect();
        let own = waits(&mut kept, "b", 2, 10, 0);
        let next = waits(&mut kept, "c", 2, 10, 0);
        let now_ms = HTTP_BODY_SILENCE_MS;
        kept.look(MAX, now_ms - 1);
        assert!(!arrives(&kept, next), "it has not waited for long");
        kept.look(MAX, now_ms);
        assert!(arrives(&kept, next));
        assert!(arrives(&kept, many[0]) && arrives(&kept, many[1]) && arrives(&kept, many[2]));
        assert_eq!(*stage(&kept, many[3]), Stage::GivenUp(ApiError::NoRoom));
        assert!(arrives(&kept, own), "what is left is for who waits longest");
        // For its next part it does not wait again.
        kept.ask(next, 20, MAX, now_ms);
        assert!(arrives(&kept, next) && !kept.bodies[&many[2]].is_unfinished());
        // One large body is not given up for the next.
        let mut kept = Kept::default();
        let large = waits(&mut kept, "b", 2, MAX, 0);
        let next = waits(&mut kept, "c", 2, 10, 0);
        kept.look(MAX, now_ms);
        assert!(arrives(&kept, large) && !arrives(&kept, next));
    }

    #[test]
    fn values_are_counted_outside_of_texts_wherever_the_body_is_cut() {
        let text = br#"{"a,[{\",":[1,2,{}],"b":"\\"}"#;
        for at in 0..text.len() {
            let mut values = Values::default();
            values.count(&text[..at]);
            values.count(&text[at..]);
            assert_eq!(values.number, 6, "cut at {at}");
        }
    }
}
