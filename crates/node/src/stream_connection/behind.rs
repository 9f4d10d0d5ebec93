//! Names that this node does not know. Another node of the cluster may have made them a moment ago:
//! before a client is told that there is no such thing, this node makes sure that it has seen what
//! the cluster had agreed on, and looks once more.

use super::port::NodePort;
use crate::env::Env;
use crate::registry::LimitReached;
use leveret_stream::RequestId;

/// What a stream is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    /// To know its id.
    Id,
    /// To delete it.
    Deletion,
}

/// What is looked at again once this node has seen what the cluster had agreed on.
#[derive(Debug, Default)]
pub(super) struct Behind {
    /// The connection is to be told when that is so.
    is_awaited: bool,
    /// It is so now: what is still unknown does not exist.
    is_second_look: bool,
    /// Streams that were asked for, in their order.
    streams: Vec<(RequestId, String, Wanted)>,
    /// A login of a user who is not known: mechanism and response.
    login: Option<(String, Vec<u8>)>,
}

impl Behind {
    pub(super) const fn begin_second_look(&mut self) {
        self.is_awaited = false;
        self.is_second_look = true;
    }

    pub(super) const fn end_second_look(&mut self) {
        self.is_second_look = false;
    }
}

impl<E: Env> NodePort<'_, E> {
    /// Whether something that is not known is looked for again in a moment; not where this node
    /// knows all that there is to know.
    pub(super) fn awaits_cluster(&mut self) -> bool {
        let behind = &mut self.side.behind;
        if !behind.is_second_look && !behind.is_awaited {
            behind.is_awaited = self.env.await_read_barrier(self.side.identity.id);
        }
        behind.is_awaited
    }

    /// Looks for a stream again later, if that is any use.
    pub(super) fn awaits_stream(&mut self, request: RequestId, name: &str, wanted: Wanted) -> bool {
        let awaits = self.awaits_cluster();
        if awaits {
            let streams = &mut self.side.behind.streams;
            streams.push((request, name.to_owned(), wanted));
        }
        awaits
    }

    /// Does a login again later, if that is any use.
    pub(super) fn awaits_user(&mut self, mechanism: &str, response: &[u8]) -> bool {
        let awaits = self.awaits_cluster();
        if awaits {
            self.side.behind.login = Some((mechanism.to_owned(), response.to_vec()));
        }
        awaits
    }

    /// Whether a virtual host that could not be opened is tried again later: another node may have
    /// made it, or have closed what counts against its limits.
    pub(super) fn may_open_later(&mut self, vhost: &str, refused: &LimitReached) -> bool {
        if self.side.login.is_stranger(vhost, self.env) && self.awaits_cluster() {
            return true;
        }
        let counts_may_change = refused.by_others && !self.side.behind.is_second_look;
        if counts_may_change {
            self.env.registry().await_counts(self.side.identity.id);
        }
        counts_may_change
    }

    /// Looks again for the streams and the user that were not known.
    pub(super) fn look_again(&mut self) {
        for (request, name, wanted) in std::mem::take(&mut self.side.behind.streams) {
            match wanted {
                Wanted::Id => self.look_up(request, &name),
                Wanted::Deletion => self.delete(request, &name),
            }
        }
        if let Some((mechanism, response)) = self.side.behind.login.take() {
            self.begin_login(&mechanism, &response);
        }
    }
}
