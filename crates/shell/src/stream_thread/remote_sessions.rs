//! Sessions of other nodes at the streams of this one: the streams know them as
//! [`SessionId::Remote`], by numbers of their own.

use leveret_cluster::streams::{PeerLink, command_bytes, goes_with_publishes};
use leveret_stream::{Command, SessionId};
use leveret_types::limits::{STREAM_RELAY_BYTES_MAX, STREAM_RELAY_SESSIONS_MAX};
use std::collections::{BTreeMap, HashMap};

/// Bytes of which another node is told once so many were taken.
const TOLD_BYTES: u64 = STREAM_RELAY_BYTES_MAX as u64 / 4;

/// Bytes that were taken, and that their node was not told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) publishes: u64,
    pub(super) others: u64,
}

/// Sessions of other nodes.
#[derive(Default)]
pub(super) struct RemoteSessions {
    last: u64,
    by_number: HashMap<u64, (PeerLink, SessionId)>,
    of_node: BTreeMap<PeerLink, HashMap<SessionId, u64>>,
    taken: BTreeMap<PeerLink, Taken>,
}

impl RemoteSessions {
    /// Whose session this is, and what its node calls it; nothing if it has left.
    pub(super) fn of(&self, number: u64) -> Option<(PeerLink, SessionId)> {
        self.by_number.get(&number).copied()
    }

    /// The number of the session that says this; nothing if it is one too many.
    pub(super) fn say(
        &mut self,
        link: PeerLink,
        session: SessionId,
        command: &Command,
    ) -> Option<u64> {
        let bytes = command_bytes(command) as u64;
        let taken = self.taken.entry(link).or_default();
        match goes_with_publishes(command) {
            true => taken.publishes += bytes,
            false => taken.others += bytes,
        }
        let known = self.of_node.entry(link).or_default();
        if matches!(command, Command::Leave) {
            let number = known.remove(&session)?;
            self.by_number.remove(&number);
            return Some(number);
        }
        if let Some(number) = known.get(&session) {
            return Some(*number);
        }
        if known.len() >= STREAM_RELAY_SESSIONS_MAX {
            return None;
        }
        self.last += 1;
        known.insert(session, self.last);
        self.by_number.insert(self.last, (link, session));
        Some(self.last)
    }

    /// The numbers of sessions that have gone with their link, in their order.
    pub(super) fn leave_all(&mut self, link: PeerLink) -> Vec<u64> {
        self.taken.remove(&link);
        let known = self.of_node.remove(&link).unwrap_or_default();
        let mut numbers: Vec<u64> = known.into_values().collect();
        numbers.sort_unstable();
        for number in &numbers {
            self.by_number.remove(number);
        }
        numbers
    }

    /// What other nodes are to be told of: much at once. Of publishes only while any are taken, so
    /// that publishers elsewhere are held as those of this node are.
    pub(super) fn take_taken(&mut self, are_publishers_held: bool) -> Vec<(PeerLink, Taken)> {
        let mut told = Vec::new();
        for (link, taken) in &mut self.taken {
            let mut due = Taken::default();
            if taken.publishes >= TOLD_BYTES && !are_publishers_held {
                due.publishes = std::mem::take(&mut taken.publishes);
            }
            if taken.others >= TOLD_BYTES {
                due.others = std::mem::take(&mut taken.others);
            }
            if due != Taken::default() {
                told.push((*link, due));
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_stream::{PublisherId, RequestId};
    use leveret_types::{ConnectionId, NodeId, QueueId};

    const HERS: PeerLink = PeerLink {
        node: NodeId(2),
        link: 1,
    };

    const fn theirs(number: u64) -> SessionId {
        SessionId::Connection(ConnectionId(number))
    }

    fn stats() -> Command {
        Command::Stats {
            request: RequestId(1),
            stream: QueueId(7).of_stream(),
        }
    }

    fn delete_publisher() -> Command {
        Command::DeletePublisher {
            stream: QueueId(7).of_stream(),
            publisher: PublisherId(1),
        }
    }

    #[test]
    fn a_session_keeps_its_number_until_it_leaves_and_each_link_has_its_own() {
        let mut sessions = RemoteSessions::default();
        let later = PeerLink { link: 2, ..HERS };
        let first = sessions.say(HERS, theirs(5), &stats());
        assert!(first.is_some());
        assert_eq!(sessions.say(HERS, theirs(5), &stats()), first);
        let second = sessions.say(later, theirs(5), &stats());
        assert_ne!(second, first);
        assert_eq!(first.and_then(|s| sessions.of(s)), Some((HERS, theirs(5))));
        assert_eq!(sessions.leave_all(HERS), Vec::from_iter(first));
        assert_eq!(first.and_then(|s| sessions.of(s)), None);
        let left = sessions.say(later, theirs(5), &Command::Leave);
        assert_eq!(left, second);
        assert_eq!(sessions.say(later, theirs(5), &Command::Leave), None);
    }

    #[test]
    fn one_session_more_than_allowed_is_not_served() {
        let mut sessions = RemoteSessions::default();
        for session in 0..STREAM_RELAY_SESSIONS_MAX as u64 {
            assert!(sessions.say(HERS, theirs(session), &stats()).is_some());
        }
        let more = theirs(STREAM_RELAY_SESSIONS_MAX as u64);
        assert_eq!(sessions.say(HERS, more, &stats()), None);
        sessions.say(HERS, theirs(0), &Command::Leave);
        assert!(sessions.say(HERS, more, &stats()).is_some());
    }

    #[test]
    fn publishers_elsewhere_hear_of_no_room_while_publishers_are_held() {
        let mut sessions = RemoteSessions::default();
        let each = command_bytes(&delete_publisher()) as u64;
        for _ in 0..TOLD_BYTES / each {
            sessions.say(HERS, theirs(1), &delete_publisher());
            sessions.say(HERS, theirs(1), &stats());
        }
        let told = sessions.take_taken(true);
        assert_eq!(told[0].1.publishes, 0);
        assert!(told[0].1.others >= TOLD_BYTES);
        let told = sessions.take_taken(false);
        assert!(told[0].1.publishes >= TOLD_BYTES);
        assert!(sessions.take_taken(false).is_empty());
    }
}
