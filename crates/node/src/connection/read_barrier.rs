//! Names that this node does not know. Another node of the cluster may have declared them a moment
//! ago: before a client is told that there is no such thing, this node makes sure that it has seen
//! what the cluster has agreed on, and looks once more.
//!
//! Invariant: what waits for that is the last thing that the connection has begun: what the client
//! sent behind it waits as well.

use super::Connection;
use super::retry::Retry;
use crate::env::Env;
use crate::registry::LimitReached;
use crate::run::Run;
use leveret_client::Session;
use leveret_types::{Now, ProtocolError, ReplyCode};

impl<S: Session> Connection<S> {
    /// Whether a name that is not known may be known behind a read barrier.
    pub(super) fn may_await_barrier<E: Env>(&self, env: &E) -> bool {
        !self.pending.has_looked_again && env.cluster().is_some()
    }

    /// Has something done again behind a read barrier, if one is worth it: nothing is to be
    /// answered now then.
    pub(super) fn await_barrier<E: Env>(&mut self, retry: impl FnOnce() -> Retry, env: &E) -> bool {
        let awaits_barrier =
            self.may_await_barrier(env) && env.await_read_barrier(self.identity.id);
        if awaits_barrier {
            self.pending.retry = Some(retry());
        }
        awaits_barrier
    }

    /// The same after an error that says that something does not exist.
    pub(super) fn await_barrier_if_missing<E: Env>(
        &mut self,
        error: &ProtocolError,
        retry: impl FnOnce() -> Retry,
        env: &E,
    ) -> bool {
        error.code == ReplyCode::NotFound && self.await_barrier(retry, env)
    }

    /// Has something done again that is refused because of what other nodes have open, once they
    /// have told that anew: a client may have left there a moment ago. Nothing is to be answered
    /// now then.
    pub(super) fn await_counts<E: Env>(
        &mut self,
        refused: &LimitReached,
        retry: Retry,
        env: &E,
    ) -> bool {
        let may_change = refused.by_others && !self.pending.has_looked_again;
        if may_change {
            env.registry().await_counts(self.identity.id);
            self.pending.retry = Some(retry);
        }
        may_change
    }

    /// This node has seen what the cluster had agreed on, or what other nodes have open.
    pub(super) fn look_again<E: Env>(&mut self, now: Now, env: &E) {
        let Some(retry) = self.pending.retry.take() else {
            return;
        };
        self.pending.has_looked_again = true;
        match retry {
            Retry::Topology(operation) => self.topology(operation, now, env),
            Retry::Consume(consume) => self.consume(consume, now, env),
            Retry::Get {
                channel,
                queue,
                no_ack,
            } => self.get(channel, &queue, no_ack, now, env),
            Retry::Publish(publish) => Run::with(env, now, |run| self.publish(publish, run)),
            Retry::Check(publish) => Run::with(env, now, |run| self.check(publish, run)),
            Retry::Login {
                mechanism,
                response,
            } => self.log_in(&mechanism, &response, now, env),
            Retry::OpenVhost(vhost) => self.open_vhost(&vhost, now, env),
            Retry::OpenChannel(channel) => self.open_channel(channel, now, env),
        }
        self.pending.has_looked_again = false;
    }
}
