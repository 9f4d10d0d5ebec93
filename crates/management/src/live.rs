//! Live answers of the API: computed once a second for as long as anybody is shown them, once for
//! all who watch the same path as the same user.
//!
//! `GET /api/leveret/live` names paths of the API; [`crate::live::stream`] sends what they answer.
//! Fifty pages that show the same cost the node as much as one.
//!
//! Invariant: an answer is made for who asked for it, as they are now: once the user's tags or
//! password have changed, or the user has gone, no other answer is made.
//! Invariant: answers are made by [`LIVE_WORKERS_MAX`] workers at most, and what is kept of them is
//! bounded ([`LIVE_CACHED_BYTES_MAX`]).

pub(crate) mod request;
pub(crate) mod stream;
pub(crate) mod subject;

use crate::access::Who;
use crate::app::App;
use crate::http::input::Query;
use crate::http::reply::{ApiError, Reply};
use crate::http::router::{self, Call};
use crate::live::subject::{LIVE_PATH, Wanted, Watcher};
use crate::routes::ROUTES;
use bytes::Bytes;
use leveret_types::limits::{
    LIVE_ANSWER_BYTES_MAX, LIVE_APART_MS, LIVE_CACHED_BYTES_MAX, LIVE_PERIOD_MS, LIVE_TOO_LARGE_MS,
    LIVE_WORKERS_MAX, LIVE_WORKERS_OF_USER_MAX,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

/// What is shown once and not again and again: it reads much, has an effect, or never changes.
const NOT_LIVE: [&str; 10] = [
    LIVE_PATH,
    "/api",
    "/api/index.html",
    "/api/openapi.json",
    "/api/aliveness-test/{vhost}",
    "/api/auth/hash_password/{}",
    "/api/definitions",
    "/api/definitions/{vhost?}",
    "/api/all-configuration",
    "/api/queues/quorum/{vhost}/{}/peek/{}",
];

/// The same of paths that end so: messages are read from disk.
const NOT_LIVE_ENDS: [&str; 3] = ["/messages", "/search", "/unacked"];

impl Watcher {
    /// What it may.
    fn who(&self) -> Who {
        match self {
            Self::Operator => Who::Operator,
            Self::User { name, tags, .. } => {
                let (name, tags) = (name.clone(), tags.clone());
                Who::User { name, tags }
            }
        }
    }

    /// Whether it is now as it was when it began.
    fn is_as_before(&self, app: &App) -> bool {
        let Self::User {
            name,
            tags,
            password_hash,
        } = self
        else {
            return true;
        };
        let now = app.node().user(name);
        now.is_some_and(|now| now.tags == *tags && now.password_hash == *password_hash)
    }
}

/// What `wanted` watches, in its order.
pub(crate) fn keys(wanted: &Wanted) -> impl Iterator<Item = Key> {
    wanted.paths.iter().map(|path| Key {
        watcher: wanted.watcher.clone(),
        path: path.clone(),
    })
}

/// What is watched, and by whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    watcher: Watcher,
    path: String,
}

/// What a path has answered.
#[derive(Debug)]
pub(crate) struct Answer {
    /// When it was begun to be made.
    pub(crate) begun: Instant,
    /// The same number: the same content.
    pub(crate) version: u64,
    /// What it says.
    pub(crate) content: Content,
}

/// What an answer says.
#[derive(Debug)]
pub(crate) enum Content {
    /// An HTTP status, and JSON.
    Json(u16, Held),
    /// It is not sent live, and why: it is to be asked for.
    AskFor(String),
    /// Who watches is not who they were: they have to log in anew.
    Ended,
}

impl Content {
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Json(a, of_a), Self::Json(b, of_b)) => a == b && of_a.bytes == of_b.bytes,
            (Self::AskFor(a), Self::AskFor(b)) => a == b,
            (Self::Ended, Self::Ended) => true,
            _ => false,
        }
    }
}

/// Bytes that count among those that are kept.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) bytes: Bytes,
    live: Arc<Live>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let bytes = self.bytes.len();
        self.live.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// All that is watched at a server.
#[derive(Debug)]
pub(crate) struct Live {
    watches: Mutex<BTreeMap<Key, Weak<Watch>>>,
    workers: Semaphore,
    /// What of these each user may have: whose answers take long holds up no others'.
    of_users: Mutex<BTreeMap<String, Weak<Semaphore>>>,
    held_bytes: AtomicUsize,
}

/// A path that somebody watches, for as long as somebody has it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    latest: Mutex<Option<Arc<Answer>>>,
    /// Who is told of each answer.
    followers: Mutex<Vec<Weak<Notify>>>,
    /// Has the next answer made soon, or not at all where nobody watches any more.
    wake: Arc<Notify>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

impl Watch {
    /// What it answered last.
    pub(crate) fn latest(&self) -> Option<Arc<Answer>> {
        // Whole values are stored.
        let latest = self.latest.lock();
        latest.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn publish(&self, begun: Instant, content: Content) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let version = latest.take().map_or(1, |before| {
            before.version + u64::from(!before.content.is_like(&content))
        });
        *latest = Some(Arc::new(Answer {
            begun,
            version,
            content,
        }));
        drop(latest);
        let followers = self.followers.lock();
        let mut followers = followers.unwrap_or_else(PoisonError::into_inner);
        followers.retain(|follower| {
            let follower = follower.upgrade();
            follower.inspect(|follower| follower.notify_one()).is_some()
        });
    }
}

impl Live {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            watches: Mutex::default(),
            workers: Semaphore::new(LIVE_WORKERS_MAX),
            of_users: Mutex::default(),
            held_bytes: AtomicUsize::new(0),
        })
    }

    fn watches(&self) -> MutexGuard<'_, BTreeMap<Key, Weak<Watch>>> {
        // Each change is whole before anything can panic.
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a path: `follower` is told of each answer from now on, the next of which is made
    /// soon. Must be called within the runtime.
    pub(crate) fn watch(
        self: &Arc<Self>,
        app: &Arc<App>,
        key: Key,
        follower: &Arc<Notify>,
    ) -> Arc<Watch> {
        let mut watches = self.watches();
        let known = watches.get(&key).and_then(Weak::upgrade);
        let is_new = known.is_none();
        let watch = known.unwrap_or_default();
        let followers = watch.followers.lock();
        let mut followers = followers.unwrap_or_else(PoisonError::into_inner);
        followers.push(Arc::downgrade(follower));
        drop(followers);
        if is_new {
            watches.insert(key.clone(), Arc::downgrade(&watch));
            let (live, app) = (Arc::clone(self), Arc::clone(app));
            tokio::spawn(live.answer_on(app, key, Arc::downgrade(&watch)));
        } else {
            watch.wake.notify_one();
        }
        watch
    }

    /// What a watcher's user may have of the workers, all that it watches together.
    fn turns_of(&self, watcher: &Watcher) -> Arc<Semaphore> {
        // Whole values are stored.
        let of_users = self.of_users.lock();
        let mut of_users = of_users.unwrap_or_else(PoisonError::into_inner);
        of_users.retain(|_, turns| turns.strong_count() > 0);
        let name = watcher.name();
        if let Some(turns) = of_users.get(name).and_then(Weak::upgrade) {
            return turns;
        }
        let turns = Arc::new(Semaphore::new(LIVE_WORKERS_OF_USER_MAX));
        of_users.insert(name.to_owned(), Arc::downgrade(&turns));
        turns
    }

    /// Answers a path again and again, until nobody watches it.
    async fn answer_on(self: Arc<Self>, app: Arc<App>, key: Key, watch: Weak<Watch>) {
        let turns = self.turns_of(&key.watcher);
        loop {
            // Neither is ever closed.
            let turn = turns.acquire().await;
            let worker = self.workers.acquire().await;
            let Some(watched) = watch.upgrade() else {
                break;
            };
            let begun = Instant::now();
            let made = {
                let (live, app, key) = (Arc::clone(&self), Arc::clone(&app), key.clone());
                tokio::task::spawn_blocking(move || live.answer(&app, &key)).await
            };
            drop((worker, turn));
            // The node is stopping.
            let Ok(content) = made else { break };
            let pause = match content {
                Content::AskFor(_) => Duration::from_millis(LIVE_TOO_LARGE_MS),
                // Who takes long is left the same time for other work.
                _ => Duration::from_millis(LIVE_PERIOD_MS).max(2 * begun.elapsed()),
            };
            watched.publish(begun, content);
            let wake = Arc::clone(&watched.wake);
            drop(watched);
            tokio::time::sleep_until(begun + Duration::from_millis(LIVE_APART_MS)).await;
            let _ = tokio::time::timeout_at(begun + pause, wake.notified()).await;
        }
        let mut watches = self.watches();
        // Somebody new may watch it by now.
        if watches.get(&key).is_some_and(|w| w.strong_count() == 0) {
            watches.remove(&key);
        }
    }

    /// What a path answers now.
    fn answer(self: &Arc<Self>, app: &Arc<App>, key: &Key) -> Content {
        if !key.watcher.is_as_before(app) {
            return Content::Ended;
        }
        let (status, text) = match ask(app, key).and_then(text_of) {
            Ok(Ok(answer)) => answer,
            Ok(Err(why)) => return Content::AskFor(why.to_owned()),
            Err(error) => (error.status(), error.json().to_string().into_bytes()),
        };
        let bytes = text.len();
        let held = self.held_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let held_text = Held {
            bytes: text.into(),
            live: Arc::clone(self),
        };
        match held > LIVE_CACHED_BYTES_MAX {
            true => Content::AskFor("too much is shown live at this node".to_owned()),
            false => Content::Json(status, held_text),
        }
    }
}

/// Has a path answered for who watches it.
fn ask(app: &Arc<App>, key: &Key) -> Result<Reply, ApiError> {
    let (path, query) = key.path.split_once('?').unwrap_or((&key.path, ""));
    let found = router::find(ROUTES, "GET", &format!("/api/{path}"))?;
    let ends = |end: &&str| found.pattern.ends_with(end);
    if NOT_LIVE.contains(&found.pattern) || NOT_LIVE_ENDS.iter().any(ends) {
        let reason = format!("{} is not shown live", found.pattern);
        return Err(ApiError::BadRequest(reason));
    }
    let who = key.watcher.who();
    app.admit(&who, &found)?;
    let call = Call {
        app,
        who: &who,
        of: ("GET", found.pattern),
        // What only shows something looks at no address.
        from: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        params: found.params,
        query: Query::parse(query)?,
        bytes: &[],
        content_type: String::new(),
        reason: None,
    };
    (found.method.handler)(&call)?.finished()
}

/// An answer's status and JSON, or why it is not sent live.
fn text_of(reply: Reply) -> Result<Result<(u16, Vec<u8>), &'static str>, ApiError> {
    const TOO_LARGE: &str = "the answer is too large to be sent live";
    let status = reply.status();
    let mut text = match reply {
        Reply::Json(value) | Reply::Unwell(value) => value.to_string().into_bytes(),
        Reply::Tagged(pieces, _) | Reply::Pieces("application/json", pieces) => {
            let mut text = Vec::new();
            for piece in pieces {
                text.extend_from_slice(&piece);
                if text.len() > LIVE_ANSWER_BYTES_MAX {
                    return Ok(Err(TOO_LARGE));
                }
            }
            text
        }
        _ => return Ok(Err("the answer is no JSON")),
    };
    if text.len() > LIVE_ANSWER_BYTES_MAX {
        return Ok(Err(TOO_LARGE));
    }
    // The data of an event is one line. Within a text of JSON there is no other end of a line.
    for byte in &mut text {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    Ok(Ok((status, text)))
}
