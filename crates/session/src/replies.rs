//! The node's answers: each to the frames that the client awaits.

use crate::channel::Channel;
use crate::connection::{Connection, Consumer, Phase};
use crate::input::blame;
use leveret_amqp::{basic, channel, connection, exchange, queue, tx};
use leveret_client::DeliveredTo;
use leveret_client::contract::{Reply, Request, Topology};
use leveret_types::{ConsumerId, Now, ProtocolError, Scope};

/// What was asked of the node, and what of the question the answer needs.
#[derive(Debug)]
pub(crate) enum PendingRequest {
    Login,
    OpenVhost {
        vhost: String,
    },
    UpdateSecret,
    OpenChannel {
        channel: u16,
    },
    Topology {
        channel: u16,
        wanted: Wanted,
        nowait: bool,
    },
    Consume {
        channel: u16,
        tag: String,
        no_ack: bool,
        nowait: bool,
    },
    Cancel {
        channel: u16,
        consumer: ConsumerId,
        tag: String,
        nowait: bool,
    },
    Get {
        channel: u16,
        no_ack: bool,
    },
    Commit {
        channel: u16,
    },
    /// Whatever came of the publishes before comes first; then this error, if there is one.
    Turn {
        failed: Option<(u16, ProtocolError)>,
    },
}

/// Which method's `-ok` an operation has for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeBind,
    ExchangeUnbind,
    QueueDeclare,
    QueueBind,
    QueueUnbind,
    QueuePurge,
    QueueDelete,
}

impl Wanted {
    pub const fn of(operation: &Topology) -> Self {
        match operation {
            Topology::ExchangeDeclare { .. } => Self::ExchangeDeclare,
            Topology::ExchangeDelete { .. } => Self::ExchangeDelete,
            Topology::ExchangeBind { .. } => Self::ExchangeBind,
            Topology::ExchangeUnbind { .. } => Self::ExchangeUnbind,
            Topology::QueueDeclare { .. } => Self::QueueDeclare,
            Topology::QueueBind { .. } => Self::QueueBind,
            Topology::QueueUnbind { .. } => Self::QueueUnbind,
            Topology::QueuePurge { .. } => Self::QueuePurge,
            Topology::QueueDelete { .. } => Self::QueueDelete,
        }
    }

    const fn ids(self) -> (u16, u16) {
        match self {
            Self::ExchangeDeclare => (40, 10),
            Self::ExchangeDelete => (40, 20),
            Self::ExchangeBind => (40, 30),
            Self::ExchangeUnbind => (40, 40),
            Self::QueueDeclare => (50, 10),
            Self::QueueBind => (50, 20),
            Self::QueuePurge => (50, 30),
            Self::QueueDelete => (50, 40),
            Self::QueueUnbind => (50, 50),
        }
    }
}

impl PendingRequest {
    /// The channel that it was asked on; 0 for the connection's own affairs.
    const fn channel(&self) -> u16 {
        match self {
            Self::Login | Self::OpenVhost { .. } | Self::UpdateSecret | Self::Turn { .. } => 0,
            Self::OpenChannel { channel }
            | Self::Topology { channel, .. }
            | Self::Consume { channel, .. }
            | Self::Cancel { channel, .. }
            | Self::Get { channel, .. }
            | Self::Commit { channel } => *channel,
        }
    }

    /// Class and id of the method that asked.
    const fn ids(&self) -> (u16, u16) {
        match self {
            Self::Login | Self::Turn { .. } => (0, 0),
            Self::OpenVhost { .. } => (10, 40),
            Self::UpdateSecret => (10, 70),
            Self::OpenChannel { .. } => (20, 10),
            Self::Topology { wanted, .. } => wanted.ids(),
            Self::Consume { .. } => (60, 20),
            Self::Cancel { .. } => (60, 30),
            Self::Get { .. } => (60, 70),
            Self::Commit { .. } => (90, 20),
        }
    }

    /// Whether the answer still has somebody to go to: since it was asked, its channel or the
    /// connection may have been closed.
    fn is_alive(&self, connection: &Connection) -> bool {
        let channel = self.channel();
        let open = || {
            connection
                .channels
                .get(&channel)
                .is_some_and(|c| !c.closing)
        };
        match self {
            Self::Login | Self::OpenVhost { .. } => !matches!(
                connection.phase,
                Phase::Closing { .. } | Phase::Lingering | Phase::Closed
            ),
            Self::UpdateSecret | Self::OpenChannel { .. } | Self::Turn { .. } => {
                connection.phase == Phase::Running
            }
            _ => connection.phase == Phase::Running && open(),
        }
    }
}

impl Connection {
    /// Answers what was asked, and goes on with the input that had to wait.
    ///
    /// # Panics
    /// If nothing was asked, or something that this is no answer to.
    pub fn reply(&mut self, now: Now, reply: Reply, requests: &mut Vec<Request>) {
        self.times.now = now;
        let pending_request = self.pending_request.take().expect("an answer to nothing");
        self.sent_off = false;
        if pending_request.is_alive(self) {
            match reply {
                Reply::Failed(error) => self.reply_failed(&pending_request, error, requests),
                reply => self.reply_done(pending_request, reply, requests),
            }
        }
        self.read(requests);
    }

    fn reply_failed(
        &mut self,
        pending_request: &PendingRequest,
        error: ProtocolError,
        requests: &mut Vec<Request>,
    ) {
        let (class, method) = pending_request.ids();
        let error = blame(error, class, method);
        match (error.scope, pending_request) {
            // There is no channel yet to close.
            (_, PendingRequest::OpenChannel { .. }) | (Scope::Connection, _) => {
                self.fail_connection(error, requests);
            }
            (Scope::Channel, pending_request) => {
                self.now_failed(pending_request.channel(), error, requests)
            }
        }
    }

    fn reply_done(
        &mut self,
        pending_request: PendingRequest,
        reply: Reply,
        requests: &mut Vec<Request>,
    ) {
        match (pending_request, reply) {
            (PendingRequest::Login, Reply::Login(outcome)) => self.logged_in(outcome, requests),
            (PendingRequest::OpenVhost { vhost }, Reply::Done) => self.opened(vhost),
            (PendingRequest::UpdateSecret, Reply::Done) => {
                self.send(0, &connection::UpdateSecretOk {})
            }
            (PendingRequest::OpenChannel { channel }, Reply::Done) => {
                let is_new = self.channels.insert(channel, Channel::default());
                assert!(is_new, "channel {channel} was open");
                self.send(channel, &channel::OpenOk {});
            }
            (
                PendingRequest::Topology {
                    channel,
                    wanted,
                    nowait,
                },
                reply,
            ) => {
                self.topology_done(channel, wanted, nowait, reply);
            }
            (
                PendingRequest::Consume {
                    channel,
                    tag,
                    no_ack,
                    nowait,
                },
                Reply::Consuming { consumer },
            ) => {
                if !nowait {
                    self.send(channel, &basic::ConsumeOk { consumer_tag: &tag });
                }
                self.consuming(channel, tag, no_ack, consumer);
            }
            (
                PendingRequest::Cancel {
                    channel,
                    consumer,
                    tag,
                    nowait,
                },
                Reply::Done,
            ) => {
                self.consumers.remove(&consumer);
                if let Some(channel) = self.channels.get_mut(&channel) {
                    channel.consumers.remove(&*tag);
                }
                if !nowait {
                    self.send(channel, &basic::CancelOk { consumer_tag: &tag });
                }
            }
            (PendingRequest::Get { channel, no_ack }, Reply::Got(Some((delivery, left)))) => {
                self.deliver_got(channel, no_ack, &delivery, left);
            }
            (PendingRequest::Get { channel, .. }, Reply::Got(None)) => {
                if let Some(of) = self.open_channel(channel) {
                    of.counters.edit().got_empty += 1;
                }
                self.send(channel, &basic::GetEmpty {});
            }
            (PendingRequest::Turn { failed }, Reply::Done) => {
                if let Some((number, error)) = failed
                    && !self.channels.get(&number).is_some_and(|c| c.closing)
                {
                    self.now_failed(number, error, requests);
                }
            }
            (PendingRequest::Commit { channel }, Reply::Done) => {
                self.send(channel, &tx::CommitOk {})
            }
            (pending_request, reply) => panic!("{reply:?} is no answer to {pending_request:?}"),
        }
    }

    fn consuming(&mut self, number: u16, tag: String, no_ack: bool, consumer: ConsumerId) {
        let tag = tag.into_boxed_str();
        if let Some(channel) = self.channels.get_mut(&number) {
            channel.consumers.insert(tag.clone(), consumer);
        }
        let before = self.consumers.insert(
            consumer,
            Consumer {
                channel: number,
                tag,
                no_ack,
                delivered: DeliveredTo::default(),
            },
        );
        assert!(before.is_none(), "consumer {consumer} was there");
    }

    fn topology_done(&mut self, channel: u16, wanted: Wanted, nowait: bool, reply: Reply) {
        if let Reply::Queue { name, .. } = &reply
            && let Some(channel) = self.channels.get_mut(&channel)
        {
            channel.last_queue = name.as_str().into();
        }
        if nowait {
            return;
        }
        match (wanted, reply) {
            (Wanted::ExchangeDeclare, Reply::Done) => {
                self.send(channel, &exchange::DeclareOk {});
            }
            (Wanted::ExchangeDelete, Reply::Done) => self.send(channel, &exchange::DeleteOk {}),
            (Wanted::ExchangeBind, Reply::Done) => self.send(channel, &exchange::BindOk {}),
            (Wanted::ExchangeUnbind, Reply::Done) => self.send(channel, &exchange::UnbindOk {}),
            (
                Wanted::QueueDeclare,
                Reply::Queue {
                    name,
                    messages,
                    consumers,
                },
            ) => {
                let queue = &name;
                let (message_count, consumer_count) = (messages, consumers);
                let ok = queue::DeclareOk {
                    queue,
                    message_count,
                    consumer_count,
                };
                self.send(channel, &ok);
            }
            (Wanted::QueueBind, Reply::Done) => self.send(channel, &queue::BindOk {}),
            (Wanted::QueueUnbind, Reply::Done) => self.send(channel, &queue::UnbindOk {}),
            (Wanted::QueuePurge, Reply::Count(message_count)) => {
                self.send(channel, &queue::PurgeOk { message_count });
            }
            (Wanted::QueueDelete, Reply::Count(message_count)) => {
                self.send(channel, &queue::DeleteOk { message_count });
            }
            (wanted, reply) => panic!("{reply:?} is no answer to {wanted:?}"),
        }
    }
}
