//! The requests of a session to its node, and their answers.

use leveret_auth::Access;
use leveret_stream::{Command, RequestId};
use leveret_stream_protocol::ResponseCode;

/// Where clients reach a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// Where they are.
    Here,
    /// At that host and port.
    At(String, u16),
    /// It has not said that yet: it was not connected since this node runs.
    Unknown,
}

/// The node, as a session sees it. Names are those of the virtual host that the client has opened.
pub trait Port {
    /// Checks who the client is; [`crate::Session::logged_in`] is called once that is known, also
    /// at once after the call that asked.
    fn log_in(&mut self, mechanism: &str, response: &[u8]);

    /// Opens a virtual host for the user who has logged in.
    fn open_vhost(&mut self, vhost: &str) -> Opening;

    /// Whether what has been made at another node a moment ago may not be known here yet: then
    /// [`crate::Session::retry`] is called once this node knows what the others had agreed on.
    fn may_be_behind(&mut self) -> bool {
        false
    }

    /// What [`crate::Session::retry`] was called for has been looked at again: what the client
    /// asks next is asked for the first time.
    fn retried(&mut self) {}

    /// Whether the user may do this with a stream.
    fn permits_stream(&mut self, access: Access, stream: &str) -> bool;

    /// Whether the user may make and delete a super stream of this name, and bind these to it.
    fn permits_super_stream(&mut self, name: &str, partitions: &[String]) -> bool;

    /// Whether nothing is to be published to a stream: a partition of a super stream, drained by an
    /// operator.
    fn is_drained(&mut self, _stream: &str) -> bool {
        false
    }

    /// The node that leads a stream.
    fn leader(&mut self, _stream: &str) -> Reached {
        Reached::Here
    }

    /// The nodes that have other replicas of a stream.
    fn replicas(&mut self, _stream: &str) -> Vec<Reached> {
        Vec::new()
    }

    /// Whether no publisher may begin: an alarm is on.
    fn holds_publishers(&self) -> bool;

    /// Whether there is an exchange of this name, a super stream or another one.
    fn has_exchange(&mut self, name: &str) -> bool;

    /// The partitions of a super stream in their order; nothing if there is none of this name.
    fn partitions(&mut self, super_stream: &str) -> Option<Vec<String>>;

    /// The partitions of a super stream that a routing key leads to; nothing if there is none of
    /// this name.
    fn route(&mut self, super_stream: &str, routing_key: &str) -> Option<Vec<String>>;

    /// Makes a super stream of partitions that exist, each with the key that leads to it. Of the
    /// arguments, which are those of the partitions too, it takes those that are for all of it.
    /// [`crate::Session::super_stream_changed`] is called once it is made, or refused; then nothing
    /// of it is left.
    fn make_super_stream(
        &mut self,
        request: RequestId,
        name: &str,
        partitions: &[(String, String)],
        arguments: &[(String, String)],
    );

    /// Takes a super stream away. Its partitions stay. [`crate::Session::super_stream_changed`] is
    /// called once it is gone.
    fn remove_super_stream(&mut self, request: RequestId, name: &str);

    /// Work that questions since the last call of this took beyond that of most frames, in frames
    /// (see [`leveret_types::limits::STREAM_FRAMES_PER_TURN_MAX`]).
    fn take_work(&mut self) -> usize {
        0
    }

    /// Gives the streams a command of this session.
    fn send(&mut self, command: Command);
}

/// What became of a request to open a virtual host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// It is open.
    Opened,
    /// The user may not.
    Refused,
    /// This node may be behind: as in [`Port::may_be_behind`].
    Later,
}

/// What became of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginOutcome {
    /// The client is who it says it is.
    Accepted {
        /// The user's name.
        user: String,
    },
    /// The mechanism needs another round.
    Challenge(Vec<u8>),
    /// Refused: one of the codes for that. The node has delayed this answer already.
    Refused(ResponseCode),
}
