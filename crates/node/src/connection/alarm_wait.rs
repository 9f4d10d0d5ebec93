//! A publish that other nodes could not keep, for they have alarms: it waits, and with it what the
//! client sent behind it. The client is told that its connection is blocked.
//!
//! Alarms of this node hold back publishes before they are read (the session). Those of other
//! nodes concern some queues only, so that it must be known first where a publish goes.
//!
//! Invariant: what waits has been routed and put nowhere; nothing behind it has been begun.

use super::{Connection, Run};
use crate::env::Env;
use crate::run::Targets;
use bytes::Bytes;
use leveret_client::{Publish, Session};
use leveret_types::{Now, QueueId};

/// How often it is looked at in any case: a queue may have got another leader.
const LOOK_EVERY_MS: u64 = 250;

/// What waits, and why.
pub(super) struct AlarmWait {
    publish: Publish,
    targets: Targets,
    reason: &'static str,
    again_ms: u64,
}

impl AlarmWait {
    /// When it is looked at again, in monotonic milliseconds.
    pub(super) const fn again_ms(&self) -> u64 {
        self.again_ms
    }
}

impl<S: Session> Connection<S> {
    /// Why a message to these queues must wait for other nodes' alarms, if it must.
    pub(super) fn alarm_at<E: Env>(
        &self,
        targets: &[QueueId],
        run: &mut Run<'_, E>,
    ) -> Option<&'static str> {
        if !run.env.peers().have_alarms() {
            return None;
        }
        targets.iter().find_map(|queue| run.alarm_of(*queue))
    }

    /// Lets a publish wait, and tells the client.
    pub(super) fn wait_for_alarm<E: Env>(
        &mut self,
        publish: Publish,
        targets: Targets,
        reason: &'static str,
        run: &mut Run<'_, E>,
    ) {
        run.release();
        self.session.blocked(Some(reason));
        self.alarm_wait = Some(Box::new(AlarmWait {
            publish,
            targets,
            reason,
            again_ms: run.now.monotonic_ms + LOOK_EVERY_MS,
        }));
    }

    pub(super) fn is_alarm_wait_due(&self, now: Now) -> bool {
        let wait = self.alarm_wait.as_ref();
        wait.is_some_and(|wait| wait.again_ms <= now.monotonic_ms)
    }

    /// Holds publishes back, or lets them go on, as the alarms now are.
    pub(super) fn look_at_alarms<E: Env>(&mut self, now: Now, env: &E) {
        if let Some(mut wait) = self.alarm_wait.take() {
            let waits_on = Run::with(env, now, |run| {
                if let Some(reason) = self.alarm_at(&wait.targets, run) {
                    wait.reason = reason;
                    wait.again_ms = now.monotonic_ms + LOOK_EVERY_MS;
                    return Some(wait);
                }
                let AlarmWait {
                    publish, targets, ..
                } = *wait;
                if self.session.counts(publish.channel) {
                    // Its trace shows no more of it than that it was delivered: its beginning is
                    // past.
                    self.put(publish, &targets, None, run);
                }
                None
            });
            match waits_on {
                Some(wait) => self.alarm_wait = Some(wait),
                None => {
                    self.process(now, env);
                }
            }
        }
        let waits = self.alarm_wait.as_ref().map(|wait| wait.reason);
        let held = self.session.is_blocked();
        self.session.blocked(env.alarms().reason().or(waits));
        if held && !self.session.is_blocked() {
            self.session.receive(now, Bytes::new(), &mut self.requests);
            self.process(now, env);
        }
    }

    /// The client has gone: what waits was never taken. What it settled behind that returns to its
    /// queues, for it may have settled what it had published the fruit of.
    pub(super) fn give_up_alarm_wait(&mut self) {
        if self.alarm_wait.take().is_some() {
            self.drop_messages();
        }
    }
}
