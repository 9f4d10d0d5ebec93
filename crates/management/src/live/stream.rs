//! Events of one connection: what the paths that it watches answer, each as soon as it has changed.
//!
//! | event | data |
//! |---|---|
//! | `answer` | `path`: its number, from 0; `at_ms`, since the connection began; `status`; `body` |
//! | `ask` | `path`, and the `reason` why it is not sent live: it is to be asked for by itself |
//! | `tick` | once a second: `at_ms`, and `same`: paths that answer the same, with their `at_ms` |
//! | `end` | the `reason`; nothing comes behind it |
//!
//! Invariant: what waits for a client that does not read is one event, and the bytes that the
//! connection takes of it. It is sent the newest answer when it reads on, and none between.

use crate::app::App;
use crate::events::Events;
use crate::http::connection_limiter::ConnectionPermit;
use crate::http::reply::{ApiError, Reply};
use crate::live::subject::Wanted;
use crate::live::{Answer, Content, Key, Live, Watch, keys};
use bytes::Bytes;
use leveret_auth::network_of;
use leveret_types::limits::{LIVE_PERIOD_MS, LIVE_STREAMS_EACH_MAX, LIVE_STREAMS_MAX};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// Seconds after which who was refused may come again.
const AGAIN_SECONDS: u64 = 10;

/// Who is sent events at a server.
#[derive(Debug)]
pub(crate) struct Streams {
    live: Arc<Live>,
    /// The user and the network of each.
    open: Mutex<Vec<(String, IpAddr)>>,
}

/// One among them, until it is dropped.
#[derive(Debug)]
struct OpenStream {
    streams: Arc<Streams>,
    of: (String, IpAddr),
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut open = self.streams.open();
        if let Some(at) = open.iter().position(|of| *of == self.of) {
            open.swap_remove(at);
        }
    }
}

impl Streams {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            live: Live::new(),
            open: Mutex::default(),
        })
    }

    fn open(&self) -> MutexGuard<'_, Vec<(String, IpAddr)>> {
        // Each change is whole before anything can panic.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(self: &Arc<Self>, user: &str, network: IpAddr) -> Result<OpenStream, ApiError> {
        let mut open = self.open();
        let of_user = open.iter().filter(|of| of.0 == user).count();
        let of_network = open.iter().filter(|of| of.1 == network).count();
        if open.len() >= LIVE_STREAMS_MAX || of_user.max(of_network) >= LIVE_STREAMS_EACH_MAX {
            let reason = format!(
                "{} pages are sent figures as they change, {of_user} of this user and \
                 {of_network} of this address: ask for them instead",
                open.len()
            );
            return Err(ApiError::TooMany(reason, AGAIN_SECONDS));
        }
        let of = (user.to_owned(), network);
        open.push(of.clone());
        drop(open);
        let streams = Arc::clone(self);
        Ok(OpenStream { streams, of })
    }

    /// Begins to send what is wanted. Must be called within the runtime.
    ///
    /// # Errors
    /// If too many are sent events already.
    pub(crate) fn begin(
        self: &Arc<Self>,
        app: &Arc<App>,
        wanted: &Wanted,
        (peer, permit): (IpAddr, &Arc<ConnectionPermit>),
    ) -> Result<Reply, ApiError> {
        let open = self.enter(wanted.watcher.name(), network_of(peer))?;
        let news = Arc::new(Notify::new());
        let opened = Instant::now();
        let shown = keys(wanted).map(|key| self.shown(app, key, &news));
        let stream = Stream {
            shown: shown.collect(),
            opened,
            permit: Arc::clone(permit),
            ticks: 0,
            _open: open,
        };
        // One part waits to be taken: who does not take it has the next one wait, too.
        let (out, parts) = mpsc::channel(1);
        tokio::spawn(stream.run(Arc::clone(&news), Out(out)));
        Ok(Reply::Events(Events { parts, news }))
    }

    fn shown(&self, app: &Arc<App>, key: Key, news: &Arc<Notify>) -> Shown {
        Shown {
            watch: self.live.watch(app, key, news),
            sent: 0,
            seen: None,
        }
    }
}

/// Where events go.
struct Out(mpsc::Sender<Bytes>);

/// Nobody takes events any more, or nobody has room for them.
struct Gone;

impl Out {
    async fn send(&self, part: impl Into<Bytes>) -> Result<(), Gone> {
        self.0.send(part.into()).await.map_err(|_| Gone)
    }

    async fn event(&self, name: &str, id: u64, data: &Value) -> Result<(), Gone> {
        let text = format!("event: {name}\nid: {id}\ndata: {data}\n\n");
        self.send(text).await
    }
}

/// A path that a client watches.
#[derive(Debug)]
struct Shown {
    watch: Arc<Watch>,
    /// The version that was sent last; 0: none.
    sent: u64,
    /// When the answer was begun that was seen last.
    seen: Option<Instant>,
}

impl Shown {
    /// An answer that was not seen before, if there is one; what was made before `opened` may lack
    /// what the client has just done. And whether it says what the one before it said.
    fn news(&mut self, opened: Instant) -> Option<(Arc<Answer>, bool)> {
        let latest = self.watch.latest();
        let latest = latest.filter(|a| a.begun >= opened && self.seen != Some(a.begun))?;
        let is_same = latest.version == self.sent;
        self.seen = Some(latest.begun);
        self.sent = latest.version;
        Some((latest, is_same))
    }
}

/// One connection that is sent events.
#[derive(Debug)]
struct Stream {
    shown: Vec<Shown>,
    opened: Instant,
    permit: Arc<ConnectionPermit>,
    ticks: u64,
    _open: OpenStream,
}

impl Stream {
    /// Sends events until the client has gone or reads no more, or must log in anew.
    async fn run(mut self, news: Arc<Notify>, out: Out) {
        // Whoever has gone needs no farewell.
        let _ = self.send_all(&news, &out).await;
    }

    async fn send_all(&mut self, news: &Notify, out: &Out) -> Result<(), Gone> {
        const PERIOD: Duration = Duration::from_millis(LIVE_PERIOD_MS);
        // The client tries again after this if the connection ends.
        out.send(format!("retry: {LIVE_PERIOD_MS}\n\n")).await?;
        let mut next = self.opened + PERIOD;
        // Which answers say the same, and when they were made.
        let mut same: BTreeMap<usize, u64> = BTreeMap::new();
        loop {
            let _ = tokio::time::timeout_at(next, news.notified()).await;
            let is_tick = Instant::now() >= next;
            if out.0.is_closed() {
                return Err(Gone);
            }
            for number in 0..self.shown.len() {
                match self.shown[number].news(self.opened) {
                    None => {}
                    Some((answer, true)) => {
                        same.insert(number, self.since_opened(answer.begun));
                    }
                    Some((answer, false)) => {
                        same.remove(&number);
                        self.send(number, &answer, out).await?;
                    }
                }
            }
            if is_tick {
                self.ticks += 1;
                let at_ms = self.since_opened(Instant::now());
                let same: Vec<(usize, u64)> = std::mem::take(&mut same).into_iter().collect();
                let data = json!({"at_ms": at_ms, "same": same});
                out.event("tick", self.ticks, &data).await?;
                // Who reads slowly is sent fewer.
                next = (next + PERIOD).max(Instant::now());
            }
        }
    }

    fn since_opened(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.opened);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    async fn send(&self, path: usize, answer: &Answer, out: &Out) -> Result<(), Gone> {
        match &answer.content {
            Content::Json(status, body) => {
                let at_ms = self.since_opened(answer.begun);
                let id = self.ticks;
                let head = format!(
                    "event: answer\nid: {id}\ndata: {{\"path\":{path},\"at_ms\":{at_ms},\
                     \"status\":{status},\"body\":"
                );
                // Who does not read takes no room from who does.
                let held = self.permit.hold(body.bytes.len()).ok_or(Gone)?;
                out.send(head).await?;
                out.send(held.around(body.bytes.clone())).await?;
                out.send("}\n\n").await
            }
            Content::AskFor(reason) => {
                let data = json!({"path": path, "reason": reason});
                out.event("ask", self.ticks, &data).await
            }
            Content::Ended => {
                let reason = "the user, their tags or their password have changed: log in anew";
                let data = json!({"reason": reason});
                out.event("end", self.ticks, &data).await?;
                Err(Gone)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: usize) -> IpAddr {
        IpAddr::from([192, 0, 2, u8::try_from(n).expect("a small number")])
    }

    #[test]
    fn pages_of_one_user_and_of_one_address_and_all_together_are_bounded() {
        let streams = Streams::new();
        let refused = |result: Result<OpenStream, ApiError>| match result {
            Ok(_) => panic!("let in"),
            Err(error) => assert_eq!(error.status(), 429),
        };
        let mut opened: Vec<OpenStream> = (0..LIVE_STREAMS_EACH_MAX)
            .map(|n| streams.enter("a", address(n)).expect("a place"))
            .collect();
        refused(streams.enter("a", address(200)));
        let other = (0..LIVE_STREAMS_EACH_MAX).map(|n| {
            streams
                .enter(&format!("b{n}"), address(201))
                .expect("a place")
        });
        opened.extend(other);
        refused(streams.enter("c", address(201)));
        let more = (opened.len()..LIVE_STREAMS_MAX).map(|n| {
            streams
                .enter(&format!("d{n}"), address(n % 50))
                .expect("a place")
        });
        let more: Vec<OpenStream> = more.collect();
        refused(streams.enter("e", address(202)));
        drop(more);
        opened.pop();
        assert!(streams.enter("c", address(201)).is_ok());
    }
}
