//! What all requests share: the node, the token, the rates.

use crate::access::{Who, permit};
use crate::api::{Login, LoginAnswer, LoginTally, LoginVerdict, Running};
use crate::directory::{Counts, Directory};
use crate::history::latencies::Lately;
use crate::history::rates::{PAIR_FIELDS, Subject};
use crate::history::samples::{Clock, Moment, Samples};
use crate::history::shared_rates::AllRates;
use crate::history::sums::Sums;
use crate::http::browser::HostNames;
use crate::http::cors::Origins;
use crate::http::listeners::Way;
use crate::http::rate_limit::RateLimit;
use crate::http::read_barriers::ReadBarriers;
use crate::http::reply::ApiError;
use crate::http::router::Found;
use crate::http::workers::Workers;
use crate::kept_changes::Changes;
use crate::metrics::SharedTable;
use base64::Engine;
use leveret_types::limits::{LOGIN_FAILURE_DELAY_MS, METRICS_SCRAPES_MAX};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot};

/// A node, whole.
pub trait Node: Running + Directory {}
impl<T: Running + Directory> Node for T {}

/// Logins that succeeded and failed: over AMQP, over the stream protocol, over HTTP.
pub(crate) type Attempts = [(u64, u64); 3];

/// Who somebody claims to be.
pub(crate) enum Claim {
    /// Nobody in particular, or the operator with the right token.
    Proven(Who),
    /// A user, with a password to check.
    Password { user: String, password: String },
}

/// What proves the operator.
struct OperatorToken {
    /// The command line's token; none where it may not come in this way.
    text: Option<String>,
    /// Whether it is taken also by TCP from this machine: a node without a socket file.
    on_loopback: bool,
}

impl OperatorToken {
    /// Whether it is this one, and may come this way.
    fn is(&self, token: &str, way: Way) -> bool {
        let may = way == Way::File || self.on_loopback && way == Way::Loopback;
        let expected = self.text.as_deref().filter(|_| may);
        expected.is_some_and(|expected| same(expected.as_bytes(), token.as_bytes()))
    }
}

/// What was, over time.
struct History {
    clock: Clock,
    samples: Mutex<Samples>,
    /// How long confirms, deliveries and acknowledgements took in the last minute.
    lately: Mutex<Lately>,
}

/// What all requests share.
pub struct App {
    node: Arc<dyn Node>,
    token: OperatorToken,
    /// Whether the node takes no clients because it is in maintenance.
    pub(crate) in_maintenance: AtomicBool,
    /// Whether `/metrics` shows each object.
    pub(crate) per_object: bool,
    /// Names by which the node is known beside its addresses.
    pub(crate) hosts: HostNames,
    /// What may stand before every path; empty, or a slash and more.
    pub(crate) prefix: String,
    /// Minutes that a login on the page lasts; 0: as long as its tab is open.
    pub(crate) session_minutes: u64,
    /// Origins whose pages may call the API.
    pub(crate) origins: Origins,
    /// How many requests one may send.
    pub(crate) rate_limit: RateLimit,
    /// Searches in queues that run, by who has begun them.
    pub(crate) searches: Mutex<Vec<String>>,
    /// What scrapes of all queues share.
    pub(crate) queue_table: SharedTable,
    /// Scrapes that may be worked on besides those that are.
    pub(crate) scrapes: Arc<Semaphore>,
    /// Who carries out requests.
    pub(crate) workers: Workers,
    /// Requests that look once more before they are refused.
    pub(crate) read_barriers: ReadBarriers,
    /// How long the answer to a failed login is held back.
    pub(crate) failure_delay: Duration,
    pub(crate) rates: AllRates,
    logins: Arc<LoginTally>,
    /// Logins that operators wanted forgotten.
    pub(crate) attempts_forgotten: Mutex<Attempts>,
    /// What operators have changed.
    pub(crate) changes: Mutex<Changes>,
    history: History,
    pub(crate) sums: Mutex<Sums>,
}

impl App {
    /// An application on this node.
    #[must_use]
    pub fn new(node: Arc<dyn Node>, token: Option<String>, per_object: bool) -> Self {
        Self {
            node,
            in_maintenance: AtomicBool::new(false),
            token: OperatorToken {
                text: token,
                on_loopback: false,
            },
            per_object,
            hosts: HostNames::default(),
            prefix: String::new(),
            session_minutes: 0,
            origins: Origins::default(),
            rate_limit: RateLimit::new(0),
            searches: Mutex::default(),
            queue_table: SharedTable::default(),
            scrapes: Arc::new(Semaphore::new(METRICS_SCRAPES_MAX)),
            read_barriers: ReadBarriers::default(),
            workers: Workers::of_node(),
            failure_delay: Duration::from_millis(LOGIN_FAILURE_DELAY_MS),
            rates: AllRates::default(),
            logins: Arc::default(),
            attempts_forgotten: Mutex::default(),
            changes: Mutex::default(),
            history: History {
                clock: Clock::of_machine(),
                samples: Mutex::default(),
                lately: Mutex::default(),
            },
            sums: Mutex::default(),
        }
    }

    /// Is known by what its machine calls itself, and by the names that an operator has listed,
    /// beside the addresses of this machine: pages of theirs are the node's own. Where some are
    /// listed, those of others are refused from elsewhere too.
    #[must_use]
    pub fn with_hosts(mut self, of_machine: String, listed: Vec<String>) -> Self {
        self.hosts = HostNames { of_machine, listed };
        self
    }

    /// Takes the command line's token also by TCP from this machine: for a node that cannot have a
    /// socket file. Elsewhere it is taken by the socket file alone.
    #[must_use]
    pub const fn with_token_on_loopback(mut self) -> Self {
        self.token.on_loopback = true;
        self
    }

    /// Is found below this path too: empty, or a slash and more.
    #[must_use]
    pub fn with_path_prefix(mut self, prefix: String) -> Self {
        self.prefix = prefix;
        self
    }

    /// Lets pages of these origins call the API (`*` is all), and browsers remember for so many
    /// seconds that they may.
    #[must_use]
    pub fn with_origins(mut self, origins: Vec<String>, seconds: u64) -> Self {
        self.origins = Origins { origins, seconds };
        self
    }

    /// Has the page ask for name and password again so many minutes after a login; 0: only when its
    /// tab is closed.
    #[must_use]
    pub const fn with_session_minutes(mut self, minutes: u64) -> Self {
        self.session_minutes = minutes;
        self
    }

    /// Lets each user and each address send so many requests a second; 0: as many as they like. The
    /// operator by the socket file is not bounded.
    #[must_use]
    pub fn with_rate_limit(mut self, per_second: u64) -> Self {
        self.rate_limit = RateLimit::new(per_second);
        self
    }

    /// Tells the times of samples by this clock.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        self.history.clock = Clock(Box::new(clock));
        self
    }

    /// Holds the answers to failed logins back for this long instead.
    #[must_use]
    pub const fn with_failure_delay(mut self, delay: Duration) -> Self {
        self.failure_delay = delay;
        self
    }

    /// The node.
    #[must_use]
    pub fn node(&self) -> &dyn Node {
        self.node.as_ref()
    }

    /// How many of each thing there are.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.node.counts()
    }

    /// The rates of a pair: as they are sampled, or between two questions.
    pub(crate) fn pair_rates(&self, pair: u64, counters: [u64; PAIR_FIELDS]) -> [f64; PAIR_FIELDS] {
        let sampled = self.samples().rates(Subject::Pair(pair));
        if let Some(rates) = sampled.and_then(|rates| rates.try_into().ok()) {
            return rates;
        }
        self.rates.pairs.of(pair, counters, Instant::now())
    }

    /// The time, on both clocks.
    pub(crate) fn moment(&self) -> Moment {
        (self.history.clock.0)()
    }

    /// What was, over time.
    pub(crate) fn samples(&self) -> MutexGuard<'_, Samples> {
        // As with rates: a writer that panicked left nothing that harms.
        let samples = self.history.samples.lock();
        samples.unwrap_or_else(PoisonError::into_inner)
    }

    /// How long confirms, deliveries and acknowledgements took in the last minute.
    pub(crate) fn lately(&self) -> MutexGuard<'_, Lately> {
        // The same.
        let lately = self.history.lately.lock();
        lately.unwrap_or_else(PoisonError::into_inner)
    }

    /// What this `Authorization` header claims.
    pub(crate) fn claim(&self, authorization: Option<&str>, way: Way) -> Result<Claim, ApiError> {
        let failed = || ApiError::LoginFailed;
        let Some(header) = authorization else {
            return Ok(Claim::Proven(Who::Nobody));
        };
        let (scheme, credentials) = header.split_once(' ').ok_or_else(failed)?;
        if scheme.eq_ignore_ascii_case("bearer") {
            return match self.token.is(credentials.trim(), way) {
                true => Ok(Claim::Proven(Who::Operator)),
                false => Err(failed()),
            };
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return Err(failed());
        }
        let engine = base64::engine::general_purpose::STANDARD;
        let bytes = engine.decode(credentials.trim()).map_err(|_| failed())?;
        let text = String::from_utf8(bytes).map_err(|_| failed())?;
        let (user, password) = text.split_once(':').ok_or_else(failed)?;
        Ok(Claim::Password {
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }

    /// Has a password checked; the verdict comes out of what is returned.
    pub(crate) fn check_login(
        &self,
        user: &str,
        password: &str,
        from: IpAddr,
    ) -> oneshot::Receiver<LoginVerdict> {
        let (answer, answered) = LoginAnswer::new(Arc::clone(&self.logins));
        let login = Login {
            user,
            password,
            from,
        };
        self.node.authenticate(login, answer);
        answered
    }

    /// Who a user is whose password has been checked.
    pub(crate) fn logged_in(
        &self,
        user: &str,
        verdict: Option<LoginVerdict>,
    ) -> Result<Who, ApiError> {
        match verdict {
            Some(LoginVerdict::Right) => {}
            Some(LoginVerdict::Wrong) => return Err(ApiError::LoginFailed),
            Some(LoginVerdict::Busy) => return Err(ApiError::Busy),
            None => return Err(ApiError::Failed("the node is stopping".to_owned())),
        }
        // The user may have gone meanwhile.
        let user = self.node.user(user).ok_or(ApiError::LoginFailed)?;
        Ok(Who::User {
            name: user.name,
            tags: user.tags,
        })
    }

    /// How many logins over HTTP have succeeded, and how many have failed.
    pub(crate) fn http_logins(&self) -> (u64, u64) {
        let logins = &self.logins;
        (
            logins.succeeded.load(Ordering::Relaxed),
            logins.failed.load(Ordering::Relaxed),
        )
    }

    /// Whether `who` may use the route that was found; a virtual host that is not there is told
    /// only to who may know.
    pub fn admit(&self, who: &Who, found: &Found) -> Result<(), ApiError> {
        let is_member = match (&found.vhost, who) {
            (None, _) | (_, Who::Operator) => true,
            (Some(vhost), who) => self.node.permission(who.name(), vhost).is_some(),
        };
        permit(found.method.access, who, is_member)?;
        match &found.vhost {
            Some(vhost) if found.vhost_must_exist && self.node.vhost(vhost).is_none() => {
                Err(ApiError::NotFound)
            }
            _ => Ok(()),
        }
    }

    /// Whether `who` may see what is in this virtual host.
    #[must_use]
    pub fn sees(&self, who: &Who, vhost: &str) -> bool {
        who.is_monitor() || self.node.permission(who.name(), vhost).is_some()
    }
}

/// Compares in a time that does not depend on where two texts differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differ = |(a, b): (&u8, &u8)| a ^ b;
    a.len() == b.len() && a.iter().zip(b).map(differ).fold(0, |all, d| all | d) == 0
}
