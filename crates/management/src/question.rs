//! What a node of a cluster asks the others for operators: a typed message, with a version.
//!
//! Invariant: what another node sends is judged before it is used: a question of another version,
//! or one that this node does not know, is answered with nothing at once.

use crate::cluster_lists::Order;
use crate::held::{HeldAt, HeldLook};
use crate::history::ranges::Ranges;
use crate::selection::{
    ClientKey, ClientSelection, DelayedSelection, Kind, PairSelection, QueueSelection,
};
use crate::sought::Sought;
use crate::streams::start::{Browse, StreamStart};
use leveret_types::ConnectionId;
use leveret_types::limits::REPORT_ASK_BYTES_MAX;
use serde::{Deserialize, Serialize};

/// The version of these questions and of their answers: another one is not understood.
pub const VERSION: u32 = 1;

/// The one question that is not answered in turn with the others: which alarms a node has. Alarms
/// block publishers, so that it is answered where it arrives.
pub const ALARMS: &str = "alarms";

/// A question to all other nodes. Each answers with JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// The first of the queues that are led there, by their ids: a part of a list.
    QueueOrder {
        /// Which queues are listed.
        of: QueueSelection,
        /// How.
        order: Order,
    },
    /// Figures of those of some queues that are led there, and readers of other streams, each with
    /// its `id`.
    QueuesOf {
        /// Their ids.
        ids: Vec<u64>,
        /// Over which time.
        ranges: Ranges,
    },
    /// The first of what clients there have: a part of a list.
    Clients {
        /// What is listed.
        kind: Kind,
        /// Which of it.
        of: ClientSelection,
        /// How.
        order: Order,
    },
    /// The rows of some of it, in their order.
    ClientsOf {
        /// What is listed.
        kind: Kind,
        /// Whose rows are wanted.
        keys: Vec<ClientKey>,
        /// Over which time.
        ranges: Ranges,
    },
    /// How the node is.
    Node {
        /// Over which time.
        ranges: Ranges,
    },
    /// Where its memory is.
    Memory,
    /// What its clients have open of users and virtual hosts that have a limit on it.
    LimitedCounts,
    /// Its part of `/api/overview`.
    Overview {
        /// Over which time.
        ranges: Ranges,
    },
    /// What happens in its virtual hosts: sums.
    Vhosts {
        /// The one that is meant; all where there is none.
        only: Option<String>,
        /// Over which time.
        ranges: Ranges,
    },
    /// How a queue's replica there stands.
    Replica {
        /// The queue's id.
        queue: u64,
    },
    /// Publishers of its clients of the stream protocol.
    StreamPublishers,
    /// Subscriptions of its clients of the stream protocol.
    StreamConsumers,
    /// What a stream there keeps by name.
    Tracking {
        /// The stream's id.
        stream: u64,
    },
    /// How a stream's replica there stands.
    StreamReplica {
        /// The stream's id.
        stream: u64,
    },
    /// Store an offset in a stream there: whether it is stored.
    StoreOffset {
        /// The stream's id.
        stream: u64,
        /// The offset.
        offset: u64,
        /// The consumer's name.
        name: String,
    },
    /// The groups of streams whose offsets are kept there: of all that have any, or of one.
    StreamGroups {
        /// The one that is meant.
        only: Option<u64>,
    },
    /// Set the offset of a group of a stream there: the offset, or why not in words.
    SetStreamGroup {
        /// The stream's id.
        stream: u64,
        /// The group's name.
        name: String,
        /// Where to.
        to: StreamStart,
    },
    /// Have the consumers of a group that are connected there go on behind an offset.
    MoveStreamGroup {
        /// The virtual host.
        vhost: String,
        /// The stream.
        stream: String,
        /// The group's name.
        name: String,
        /// The offset.
        offset: u64,
    },
    /// Forget the offset of a group of a stream there: whether there was one.
    ForgetStreamGroup {
        /// The stream's id.
        stream: u64,
        /// The group's name.
        name: String,
    },
    /// Messages of a stream: what is shown, as the text of JSON in a list of one.
    Browse {
        /// The virtual host.
        vhost: String,
        /// The stream.
        stream: String,
        /// What is wanted.
        browse: Browse,
    },
    /// Change the replicas of a stream that is led there: true, or why not in words.
    ChangeReplica {
        /// The stream's id.
        stream: u64,
        /// The node that gets a replica, or loses its own.
        node: String,
        /// Whether it gets one.
        adds: bool,
    },
    /// Logins there by protocol; or that those of the node of this name are counted anew: true.
    AuthAttempts {
        /// Whose are to be forgotten.
        forget: Option<String>,
    },
    /// Logins there by where they come from.
    AuthSources,
    /// Count logins by where they come from, or no more, on the node of this name: true.
    TrackAuthSources {
        /// Which node is meant.
        node: String,
        /// Whether they are counted.
        tracked: bool,
    },
    /// Begin to measure rates anew, on all nodes or on the one of this name: true.
    ForgetRates {
        /// Which node is meant.
        node: Option<String>,
    },
    /// What operators have changed through it.
    Changes,
    /// Messages of a queue that clients hold, if it is led there: the text of JSON in a list of
    /// one.
    Held {
        /// The virtual host.
        vhost: String,
        /// The queue.
        queue: String,
        /// Which.
        look: HeldLook,
        /// What those that are shown must have.
        sought: Option<Sought>,
        /// Bytes of each body that are shown.
        truncate: usize,
    },
    /// Who of the clients there holds which of these messages: the text of JSON in a list of one.
    Holders {
        /// The messages.
        held: Vec<HeldAt>,
    },
    /// The numbers under which consumers of this tag there hold messages of a queue: the text of
    /// JSON in a list of one.
    ConsumersTagged {
        /// The queue's id.
        queue: u64,
        /// The tag.
        tag: String,
    },
    /// Moves of messages that run there, or did lately.
    Moves,
    /// Stop such a move: whether it is there.
    StopMove {
        /// Its id, with the name of its node.
        id: String,
    },
    /// What is on the disk of the node of this name: the text of JSON in a list of one.
    Disk {
        /// Which node is meant.
        node: String,
    },
    /// Messages that delayed exchanges keep back there: the text of JSON in a list of one.
    Delayed {
        /// Which.
        of: DelayedSelection,
    },
    /// Drop such a message: whether it was there, or why not in words.
    CancelDelayed {
        /// Its id, with the name of its node.
        id: String,
    },
    /// Figures of pairs.
    Pairs {
        /// Of which.
        of: PairSelection,
    },
    /// Close a connection: whether it was there.
    Close {
        /// The connection's id.
        connection: u64,
        /// Why, for its client.
        reason: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Envelope<Q> {
    version: u32,
    question: Q,
}

impl Question {
    /// How many queues one question may name: an id has 20 digits at most, and a comma.
    pub const QUEUES_MAX: usize = (REPORT_ASK_BYTES_MAX - 512) / 21;

    /// How many clients' things one question may name: two numbers of 20 digits at most, one of 5,
    /// and what stands between them.
    pub const CLIENTS_MAX: usize = (REPORT_ASK_BYTES_MAX - 512) / 51;

    /// Closes a connection.
    #[must_use]
    pub fn close(connection: ConnectionId, reason: &str) -> Self {
        Self::Close {
            connection: connection.0,
            reason: reason.to_owned(),
        }
    }

    /// Whether another node takes it: names and patterns in it may be too long for that.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.encode().len() <= REPORT_ASK_BYTES_MAX
    }

    /// As it is sent.
    #[must_use]
    pub fn encode(&self) -> String {
        let envelope = Envelope {
            version: VERSION,
            question: self,
        };
        // Numbers and texts always are JSON.
        serde_json::to_string(&envelope).unwrap_or_default()
    }

    /// As it came; nothing where it is of another version, or makes no sense here.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let envelope: Envelope<Self> = serde_json::from_slice(bytes).ok()?;
        (envelope.version == VERSION).then_some(envelope.question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_arrives_as_it_was_asked() {
        let ranges = Ranges::default();
        for question in [
            Question::QueueOrder {
                of: QueueSelection::default(),
                order: Order::usual(),
            },
            Question::Clients {
                kind: Kind::Channels,
                of: ClientSelection::default(),
                order: Order::usual(),
            },
            Question::QueuesOf {
                ids: vec![u64::MAX],
                ranges,
            },
            Question::Vhosts {
                only: Some("a \"b\"\n".to_owned()),
                ranges,
            },
            Question::Delayed {
                of: DelayedSelection::default(),
            },
            Question::Pairs {
                of: PairSelection::Exchange {
                    vhost: "/".to_owned(),
                    exchange: String::new(),
                },
            },
            Question::close(ConnectionId(3), "because 7"),
            Question::Memory,
            Question::LimitedCounts,
        ] {
            let sent = question.encode();
            assert_eq!(Question::decode(sent.as_bytes()), Some(question), "{sent}");
        }
    }

    #[test]
    fn a_question_of_another_version_or_without_sense_is_none() {
        let asked = Question::Memory.encode();
        let later = asked.replace("\"version\":1", "\"version\":2");
        assert_ne!(asked, later);
        for bytes in [
            later.as_str(),
            "queues",
            "",
            r#"{"version":1,"question":"reboot"}"#,
            r#"{"version":1,"question":{"replica":{"queue":-1}}}"#,
            r#"{"version":1,"#,
        ] {
            assert_eq!(Question::decode(bytes.as_bytes()), None, "{bytes}");
        }
    }

    #[test]
    fn a_question_about_as_many_things_as_may_be_fits() {
        let Ok(query) = crate::http::input::Query::parse(&ranges_at_their_longest()) else {
            panic!("a query");
        };
        let ranges = Ranges::of(&query).expect("ranges");
        let ids = vec![u64::MAX; Question::QUEUES_MAX];
        assert!(Question::QueuesOf { ids, ranges }.fits());
        let keys = vec![ClientKey(u64::MAX, u16::MAX, u64::MAX); Question::CLIENTS_MAX];
        let kind = Kind::Connections;
        assert!(Question::ClientsOf { kind, keys, ranges }.fits());
        let name = "x".repeat(REPORT_ASK_BYTES_MAX);
        assert!(!Question::StopMove { id: name }.fits());
    }

    fn ranges_at_their_longest() -> String {
        let most = u32::MAX;
        let range = |name| format!("{name}_age={most}&{name}_incr={most}");
        ["msg_rates", "lengths", "data_rates", "node_stats"]
            .map(range)
            .join("&")
    }
}
