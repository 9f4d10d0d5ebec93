//! What a host does for the remote queues of nodes: [`Command`]s come in, by [`serve`]; what they
//! come to goes out as [`Event`](crate::quorum::protocol::Event)s.
//!
//! A classic queue serves other nodes, a replica that leads serves its own node's clients too.

use crate::quorum::protocol::{Command, Operation, Registration};
use leveret_queue::{Consumer, Position};
use leveret_types::{ConsumerId, NodeId};

/// A host of one queue, as remote queues see it.
pub(crate) trait ServesNodes {
    /// What it may reach meanwhile.
    type Context<'a>;

    /// A node's remote queue begins a session.
    fn present(
        &mut self,
        context: &mut Self::Context<'_>,
        from: NodeId,
        session: u64,
        registration: &Registration,
    );

    /// A node has nothing to register with the leader of this term.
    fn nothing_to_register(&mut self, context: &mut Self::Context<'_>, from: NodeId, term: u64);

    /// Whether what a node says in a session is to be taken. If it is not because the session is
    /// unknown, the node is asked to register.
    fn admits(&mut self, context: &mut Self::Context<'_>, from: NodeId, session: u64) -> bool;

    /// Operations in order, from number `first` on.
    fn operations(
        &mut self,
        context: &mut Self::Context<'_>,
        from: NodeId,
        session: u64,
        first: u64,
        operations: Vec<Operation>,
    );

    /// See [`Command::Attach`].
    fn attach(&mut self, context: &mut Self::Context<'_>, from: NodeId, consumer: Consumer);

    /// See [`Command::Cancel`].
    fn cancel(&mut self, context: &mut Self::Context<'_>, from: NodeId, consumer: ConsumerId);

    /// See [`Command::Detach`].
    fn detach(&mut self, context: &mut Self::Context<'_>, from: NodeId, subscription: ConsumerId);

    /// See [`Command::Credit`].
    fn credit(
        &mut self,
        context: &mut Self::Context<'_>,
        from: NodeId,
        consumer: ConsumerId,
        given: Credit,
    );

    /// See [`Command::Acknowledged`].
    fn acknowledged(&mut self, context: &mut Self::Context<'_>, from: NodeId, first: u64);

    /// Something that is answered by an event of its own.
    fn ask(&mut self, context: &mut Self::Context<'_>, from: NodeId, session: u64, what: Query);
}

/// What a consumer's connection has taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    /// Deliveries.
    pub(crate) messages: u32,
    /// Bytes of their bodies.
    pub(crate) bytes: u64,
}

/// A question of a remote queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Query {
    /// See [`Command::Get`].
    Get {
        subscription: ConsumerId,
        no_ack: bool,
    },
    /// See [`Command::Purge`].
    Purge { request: u64 },
    /// See [`Command::Count`].
    Count { request: u64 },
    /// See [`Command::Peek`].
    Peek { request: u64, before: u64 },
    /// See [`Command::Fetch`].
    Fetch {
        consumer: ConsumerId,
        position: Position,
    },
}

/// Gives a host what a node's remote queue says in a session.
pub(crate) fn serve<H: ServesNodes>(
    host: &mut H,
    context: &mut H::Context<'_>,
    from: NodeId,
    session: u64,
    command: Command,
) {
    match command {
        Command::Register(registration) => {
            return host.present(context, from, session, &registration);
        }
        Command::NothingToRegister { term } => {
            return host.nothing_to_register(context, from, term);
        }
        _ if !host.admits(context, from, session) => return,
        _ => {}
    }
    let query = match command {
        Command::Operations { first, operations } => {
            return host.operations(context, from, session, first, operations);
        }
        Command::Attach(consumer) => return host.attach(context, from, consumer),
        Command::Cancel(consumer) => return host.cancel(context, from, consumer),
        Command::Detach(subscription) => return host.detach(context, from, subscription),
        Command::Credit {
            consumer,
            messages,
            bytes,
        } => return host.credit(context, from, consumer, Credit { messages, bytes }),
        Command::Acknowledged { first } => return host.acknowledged(context, from, first),
        Command::Get {
            subscription,
            no_ack,
        } => Query::Get {
            subscription,
            no_ack,
        },
        Command::Purge { request } => Query::Purge { request },
        Command::Count { request } => Query::Count { request },
        Command::Peek { request, before } => Query::Peek { request, before },
        Command::Fetch {
            consumer,
            priority_log,
            index,
        } => Query::Fetch {
            consumer,
            position: Position {
                priority_log,
                index,
            },
        },
        Command::Register(_) | Command::NothingToRegister { .. } => return,
    };
    host.ask(context, from, session, query);
}
