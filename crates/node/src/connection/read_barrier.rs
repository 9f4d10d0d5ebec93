//! Names that this node does not know. Another node of the cluster may have declared them a moment
//! ago: before a client is told that there is no such thing, this node makes sure that it has seen
//! what the cluster has agreed on, and looks once more.
//!
//! Invariant: what waits for that is the last thing that the connection has begun: what the client
//! sent behind it waits as well.

use super::{Connection, Run};
use crate::env::Env;
use leveret_session::contract::{Consume, Publish, Topology};
use leveret_types::{ChannelId, Now, ProtocolError, ReplyCode};

/// What is done again once this node has looked.
#[derive(Debug)]
pub(super) enum Missed {
    Topology(Topology),
    Consume(Consume),
    Get {
        channel: ChannelId,
        queue: String,
        no_ack: bool,
    },
    Publish(Publish),
    Check(Publish),
    Login {
        mechanism: String,
        response: Vec<u8>,
    },
    OpenVhost(String),
}

impl Connection {
    /// Whether a name that is not known may become known by looking again.
    pub(super) fn may_look<E: Env>(&self, env: &E) -> bool {
        !self.looked && env.cluster().is_some()
    }

    /// Lets something be done again after a look, if a look is worth it: then nothing is to be
    /// answered now.
    pub(super) fn looks<E: Env>(&mut self, missed: impl FnOnce() -> Missed, env: &E) -> bool {
        let looks = self.may_look(env) && env.look(self.id);
        if looks {
            self.missed = Some(missed());
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
        let Some(missed) = self.missed.take() else {
            return;
        };
        self.looked = true;
        match missed {
            Missed::Topology(operation) => self.topology(operation, now, env),
            Missed::Consume(consume) => self.consume(consume, now, env),
            Missed::Get {
                channel,
                queue,
                no_ack,
            } => self.get(channel, &queue, no_ack, now, env),
            Missed::Publish(publish) => self.publish(publish, &mut Run::new(env, now)),
            Missed::Check(publish) => self.check(publish, &mut Run::new(env, now)),
            Missed::Login {
                mechanism,
                response,
            } => self.log_in(&mechanism, &response, now, env),
            Missed::OpenVhost(vhost) => self.open_vhost(&vhost, now, env),
        }
        self.looked = false;
    }
}
