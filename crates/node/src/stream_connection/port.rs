//! The node as the session of a stream connection sees it.

use super::Side;
use crate::env::{ConnectionEvent, Env};
use crate::registry::LimitReached;
use leveret_auth::{Access, Resource};
use leveret_queue_host::stream_events::StreamNews;
use leveret_stream::{Command, RequestId};
use leveret_stream_session::{Opening, Port, Reached};
use leveret_types::{ConnectionId, Now, QueueId};
use std::sync::Arc;

/// The node, for the time of one call.
pub(super) struct NodePort<'a, E> {
    pub(super) side: &'a mut Side,
    pub(super) now: Now,
    pub(super) env: &'a E,
}

impl<'a, E: Env> NodePort<'a, E> {
    pub(super) fn new(side: &'a mut Side, now: Now, env: &'a E) -> Self {
        Self { side, now, env }
    }

    pub(super) fn permits(&mut self, access: Access, resource: Resource<'_>) -> bool {
        let catalogue = self.env.catalogue();
        let rights = self.side.login.rights(&catalogue);
        rights.check(access, resource).is_ok()
    }

    /// Says what there was no room for, as far as there is room now.
    pub(super) fn say_again(&mut self) {
        let mut left = std::mem::take(&mut self.side.refused);
        while let Some(command) = left.pop_front() {
            if let Err(command) = self.env.say_to_streams(self.side.identity.id, command) {
                left.push_front(*command);
                break;
            }
        }
        self.side.refused = left;
    }

    fn say(&mut self, command: Command) {
        if matches!(command, Command::Leave) {
            let unsaid = std::mem::take(&mut self.side.refused);
            return self.env.leave_streams(self.side.identity.id, unsaid);
        }
        if !self.side.refused.is_empty() {
            return self.side.refused.push_back(command);
        }
        if let Err(command) = self.env.say_to_streams(self.side.identity.id, command) {
            self.side.refused.push_back(*command);
        }
    }
}

/// An operator has set the offset of a group of which all consumers are active: for those of it
/// that these connections have, the stream is read anew from behind it. Where one at a time is
/// active, the stream's leader tells it.
pub fn move_group<E: Env>(
    stream: QueueId,
    group: &str,
    offset: u64,
    connections: &[ConnectionId],
    env: &E,
) {
    let group: Arc<str> = group.into();
    for connection in connections {
        let news = StreamNews::Moved {
            stream,
            group: Arc::clone(&group),
            offset,
        };
        env.post(*connection, ConnectionEvent::Stream(news));
    }
}

impl<E: Env> Port for NodePort<'_, E> {
    fn log_in(&mut self, mechanism: &str, response: &[u8]) {
        self.begin_login(mechanism, response);
    }

    fn open_vhost(&mut self, vhost: &str) -> Opening {
        let side = &mut *self.side;
        let entered = side.login.enter_vhost(side.identity.id, vhost, self.env);
        if let Err(refused) = &entered
            && self.may_open_later(vhost, refused)
        {
            return Opening::Later;
        }
        let (connection, user) = (&self.side.identity.name, self.side.login.user_name());
        match entered {
            Ok(()) => {
                tracing::info!(%connection, user, vhost, "stream connection opened");
                Opening::Opened
            }
            Err(LimitReached { error, .. }) => {
                tracing::warn!(%connection, user, "stream connection refused: {}", error.text);
                Opening::Refused
            }
        }
    }

    fn may_be_behind(&mut self) -> bool {
        self.awaits_cluster()
    }

    fn retried(&mut self) {
        self.side.behind.end_second_look();
    }

    fn permits_stream(&mut self, access: Access, stream: &str) -> bool {
        self.permits(access, Resource::Queue(stream))
    }

    fn permits_super_stream(&mut self, name: &str, partitions: &[String]) -> bool {
        let exchange = [Access::Configure, Access::Read];
        let queue = [Access::Configure, Access::Write];
        let may_bind_from = |of| self.permits(of, Resource::Exchange(name));
        exchange.into_iter().all(may_bind_from)
            && partitions.iter().all(|partition| {
                let may = |of| self.permits(of, Resource::Queue(partition));
                queue.into_iter().all(may)
            })
    }

    fn is_drained(&mut self, stream: &str) -> bool {
        let catalogue = self.env.catalogue();
        let (generation, known) = &mut self.side.drained;
        if *generation != catalogue.generation() {
            *generation = catalogue.generation();
            known.clear();
        }
        if let Some(is_drained) = known.get(stream) {
            return *is_drained;
        }
        let vhost = catalogue.vhost(self.side.login.vhost_name());
        let is_drained = vhost.is_some_and(|vhost| vhost.router().is_drained(stream));
        // A connection has 256 publishers, whose streams are what is asked for again and again.
        if known.len() > usize::from(u8::MAX) {
            known.clear();
        }
        known.insert(stream.to_owned(), is_drained);
        is_drained
    }

    fn leader(&mut self, stream: &str) -> Reached {
        self.leader_of(stream)
    }

    fn replicas(&mut self, stream: &str) -> Vec<Reached> {
        self.replicas_of(stream)
    }

    fn holds_publishers(&self) -> bool {
        self.env.alarms().reason().is_some()
    }

    fn has_exchange(&mut self, name: &str) -> bool {
        let catalogue = self.env.catalogue();
        let vhost = catalogue.vhost(self.side.login.vhost_name());
        vhost.is_some_and(|vhost| vhost.exchange(name).is_some())
    }

    fn partitions(&mut self, super_stream: &str) -> Option<Vec<String>> {
        self.partitions_of(super_stream, None)
    }

    fn route(&mut self, super_stream: &str, routing_key: &str) -> Option<Vec<String>> {
        self.partitions_of(super_stream, Some(routing_key.as_bytes()))
    }

    fn make_super_stream(
        &mut self,
        request: RequestId,
        name: &str,
        partitions: &[(String, String)],
        arguments: &[(String, String)],
    ) {
        self.declare_super_stream(request, name, partitions, arguments);
    }

    fn remove_super_stream(&mut self, request: RequestId, name: &str) {
        self.delete_super_stream(request, name);
    }

    fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.side.work)
    }

    fn send(&mut self, command: Command) {
        match command {
            Command::Declare {
                request,
                name,
                arguments,
                ..
            } => self.declare(request, &name, &arguments),
            Command::Delete { request, name, .. } => self.delete(request, &name),
            Command::LookUp { request, name, .. } => self.look_up(request, &name),
            command => {
                self.side.has_published |= matches!(command, Command::Publish { .. });
                self.say(command);
            }
        }
    }
}
