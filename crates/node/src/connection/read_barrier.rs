//! Names that this node does not know. Another node of the cluster may have declared them a moment
//! ago: before a client is told that there is no such thing, this node makes sure that it has seen
//! what the cluster has agreed on, and looks once more.
//!
//! Invariant: what waits for that is the last thing that the connection has begun: what the client
//! sent behind it waits as well.

use super::Connection;
use super::missed::Missed;
use crate::env::Env;
use crate::run::Run;
use leveret_client::Session;
use leveret_types::{Now, ProtocolError, ReplyCode};

impl<S: Session> Connection<S> {
    /// Whether a name that is not known may become known by looking again.
    pub(super) fn may_look<E: Env>(&self, env: &E) -> bool {
        !self.pending.looked && env.cluster().is_some()
    }

    /// Lets something be done again after a look, if a look is worth it: then nothing is to be
    /// answered now.
    pub(super) fn looks<E: Env>(&mut self, missed: impl FnOnce() -> Missed, env: &E) -> bool {
        let looks = self.may_look(env) && env.look(self.identity.id);
        if looks {
            self.pending.missed = Some(missed());
        }
        looks
    }

    /// The same after an error that says that something does not exist.
    pub(super) fn looks_for<E: Env>(
        &mut self,
        error: &ProtocolError,
        missed: impl FnOnce() -> Missed,
        env: &E,
    ) -> bool {
        error.code == ReplyCode::NotFound && self.looks(missed, env)
    }

    /// This node has seen what the cluster had agreed on.
    pub(super) fn look_again<E: Env>(&mut self, now: Now, env: &E) {
        let Some(missed) = self.pending.missed.take() else {
            return;
        };
        self.pending.looked = true;
        match missed {
            Missed::Topology(operation) => self.topology(operation, now, env),
            Missed::Consume(consume) => self.consume(consume, now, env),
            Missed::Get {
                channel,
                queue,
                no_ack,
            } => self.get(channel, &queue, no_ack, now, env),
            Missed::Publish(publish) => Run::with(env, now, |run| self.publish(publish, run)),
            Missed::Check(publish) => Run::with(env, now, |run| self.check(publish, run)),
            Missed::Login {
                mechanism,
                response,
            } => self.log_in(&mechanism, &response, now, env),
            Missed::OpenVhost(vhost) => self.open_vhost(&vhost, now, env),
        }
        self.pending.looked = false;
    }
}
