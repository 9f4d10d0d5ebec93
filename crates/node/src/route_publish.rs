//! From a message to the queues that it goes to: the one way of what clients and operators publish,
//! and as much of it as the broker's own messages go.
//!
//! Clients' routes are remembered in front of it (`connection/routes.rs`): what this answers as
//! plain is asked again only once the catalogue has changed.

use crate::env::Env;
use crate::firehose::{self, TraceOrigin};
use crate::login::is_topic_exchange;
use crate::properties::{LazyProperties, copies};
use crate::run::Run;
use leveret_amqp::Property;
use leveret_auth::{Access, Resource, Rights};
use leveret_cluster::streams;
use leveret_message::has_property;
use leveret_metadata::{Catalogue, Traffic, Vhost};
use leveret_queue_host::delayed;
use leveret_routing::{Kind, RouteError, Scratch};
use leveret_types::{FieldValue, Message, ProtocolError, QueueId, ReplyCode};
use smallvec::SmallVec;

/// Routing keys of a message: its own, then those of its `CC` and `BCC` headers.
type Keys<'m> = SmallVec<[&'m [u8]; 4]>;

/// Who publishes.
#[derive(Clone, Copy)]
pub(crate) struct Sender<'a> {
    /// What it may do; everything where there is nothing.
    pub(crate) rights: Option<&'a Rights>,
    /// Where it is.
    pub(crate) origin: TraceOrigin<'a>,
}

/// Where a message goes.
pub(crate) enum Routed {
    /// To the queues that were found. With the counters of its exchange where its way is plain: all
    /// messages of this exchange and routing key, from this user, without headers, go the same as
    /// long as the catalogue does not change.
    To(Option<Traffic>),
    /// Kept back for later.
    Delayed,
}

/// Finds the queues that a message goes to, and does what else is done with whatever is published:
/// it is counted at its exchange, kept back, remembered, copied to the firehose.
///
/// # Errors
/// If the sender may not, there is no such exchange, or the message names as its queue what takes
/// none. Nothing is counted then.
pub(crate) fn route<E: Env>(
    sender: Sender<'_>,
    message: &Message,
    scratch: &mut Scratch,
    queues: &mut Vec<QueueId>,
    run: &mut Run<'_, E>,
) -> Result<Routed, ProtocolError> {
    let (now, env, origin) = (run.now, run.env, sender.origin);
    let catalogue = run.catalogue();
    let exchange = name(message.exchange())?;
    permit(sender, catalogue, exchange, message)?;
    let vhost = vhost_of(catalogue, origin.vhost)?;
    let keys = keys_of(message)?;
    let target = vhost.router().exchange(exchange);
    // An internal one takes nothing, and keeps nothing back.
    let open = target.as_ref().filter(|target| !target.internal);
    match open.map(|target| target.kind) {
        Some(Kind::Delayed(_)) => {
            if let Some(delay_ms) = delayed::delay_of(message.properties()) {
                let due = now.wall_ms + delay_ms;
                run.shard(delayed::SHARD).delay(origin.vhost, message, due);
                return Ok(Routed::Delayed);
            }
        }
        Some(Kind::RecentHistory { length }) => {
            env.history()
                .remember(origin.vhost, exchange, *length, message);
        }
        _ => {}
    }
    queues.clear();
    let lazy = LazyProperties::new(message.properties());
    let random_before = scratch.random_state();
    vhost
        .router()
        .route(message.exchange(), &keys, &lazy, scratch, queues)
        .map_err(|error| route_error(error, exchange, origin.vhost))?;
    streams::refuse_by_name(catalogue, scratch.is_by_name(), queues)?;
    if vhost.tracing() {
        let names = queues.iter().filter_map(|id| catalogue.queue(*id));
        let names = names.map(|queue| FieldValue::text(queue.name())).collect();
        env.defer(firehose::published(origin, message, names));
    }
    let is_plain = !has_headers(message)
        && !lazy.asked()
        && scratch.random_state() == random_before
        && !target.is_some_and(|target| looks_at_each(target.kind))
        && !vhost.tracing();
    let traffic = vhost.traffic(exchange);
    if let Some(traffic) = traffic {
        traffic.count(queues.len());
    }
    Ok(Routed::To(traffic.filter(|_| is_plain).cloned()))
}

/// Whether a message could be published so now, wherever it would go.
///
/// # Errors
/// As [`route`], but for what is refused by the queues that are found.
pub(crate) fn check(
    sender: Sender<'_>,
    message: &Message,
    catalogue: &Catalogue,
) -> Result<(), ProtocolError> {
    let exchange = name(message.exchange())?;
    permit(sender, catalogue, exchange, message)?;
    let vhost = vhost_of(catalogue, sender.origin.vhost)?;
    let known = vhost.router().exchange(exchange);
    let error = match known {
        Some(target) if target.internal => RouteError::Internal,
        None if !exchange.is_empty() => RouteError::NotFound,
        _ => return copies(message.properties()).map(drop),
    };
    Err(route_error(error, exchange, vhost.name()))
}

/// The queues that a message of the broker's own goes to: no permission is asked, and an exchange
/// that is gone takes nothing. Says whether a view was among them, which takes none either.
pub(crate) fn route_own(
    catalogue: &Catalogue,
    vhost: &str,
    message: &Message,
    scratch: &mut Scratch,
    queues: &mut Vec<QueueId>,
) -> bool {
    let Some(vhost) = catalogue.vhost(vhost) else {
        return false;
    };
    let is_copy = message.exchange() == firehose::EXCHANGE.as_bytes();
    // Whoever published it was told what is wrong with these headers.
    let keys = (!is_copy).then(|| keys_of(message).ok()).flatten();
    let keys = keys.unwrap_or_else(|| SmallVec::from_slice(&[message.routing_key()]));
    let lazy = LazyProperties::new(message.properties());
    let router = vhost.router();
    if let Err(error) = router.route_internal(message.exchange(), &keys, &lazy, scratch, queues) {
        queues.clear();
        tracing::debug!(
            %error,
            exchange = %String::from_utf8_lossy(message.exchange()),
            "a message of the broker's own goes nowhere",
        );
    }
    streams::leave_views_out(catalogue, queues)
}

/// Whether whoever has these rights may publish a message to an exchange.
fn permit(
    sender: Sender<'_>,
    catalogue: &Catalogue,
    exchange: &str,
    message: &Message,
) -> Result<(), ProtocolError> {
    let Some(rights) = sender.rights else {
        return Ok(());
    };
    let blame = |error: ProtocolError| error.at(60, 40);
    rights
        .check(Access::Write, Resource::Exchange(exchange))
        .map_err(blame)?;
    if rights.restricts_topics_of(exchange)
        && is_topic_exchange(catalogue, sender.origin.vhost, exchange)
    {
        // A copy goes where its key says: that key needs the permission as well.
        for key in keys_of(message)? {
            rights
                .check_topic(Access::Write, exchange, key)
                .map_err(blame)?;
        }
    }
    Ok(())
}

fn keys_of(message: &Message) -> Result<Keys<'_>, ProtocolError> {
    let mut keys = SmallVec::new();
    keys.push(message.routing_key());
    if has_headers(message) {
        keys.extend(copies(message.properties())?);
    }
    Ok(keys)
}

/// Whether copies of a message may be asked for.
pub(crate) fn has_headers(message: &Message) -> bool {
    has_property(message.properties(), Property::Headers)
}

/// Whether an exchange does something with each message, wherever it goes.
const fn looks_at_each(kind: &Kind) -> bool {
    matches!(kind, Kind::RecentHistory { .. } | Kind::Delayed(_))
}

/// The name of an exchange.
///
/// # Errors
/// If it is none.
pub(crate) fn name(bytes: &[u8]) -> Result<&str, ProtocolError> {
    std::str::from_utf8(bytes).map_err(|_| {
        ProtocolError::connection(ReplyCode::SyntaxError, "exchange name is not UTF-8")
    })
}

/// The virtual host that a client is in.
///
/// # Errors
/// If it is gone.
fn vhost_of<'c>(catalogue: &'c Catalogue, name: &str) -> Result<&'c Vhost, ProtocolError> {
    catalogue.vhost(name).ok_or_else(|| {
        ProtocolError::connection(
            ReplyCode::ConnectionForced,
            format!("vhost '{name}' is down"),
        )
    })
}

/// Why a message was not routed, as its publisher is told.
fn route_error(error: RouteError, exchange: &str, vhost: &str) -> ProtocolError {
    match error {
        RouteError::NotFound => ProtocolError::channel(
            ReplyCode::NotFound,
            format!("no exchange '{exchange}' in vhost '{vhost}'"),
        ),
        RouteError::Internal => ProtocolError::channel(
            ReplyCode::AccessRefused,
            format!("cannot publish to internal exchange '{exchange}' in vhost '{vhost}'"),
        ),
        RouteError::TooLong => ProtocolError::channel(
            ReplyCode::ResourceError,
            format!("a message to exchange '{exchange}' passes too many exchanges"),
        ),
        RouteError::TooMuchWork => ProtocolError::channel(
            ReplyCode::ResourceError,
            format!(
                "a message to exchange '{exchange}' in vhost '{vhost}' has too many bindings to \
                 look at on its way, for all of its routing keys together"
            ),
        ),
    }
    .at(60, 40)
}
