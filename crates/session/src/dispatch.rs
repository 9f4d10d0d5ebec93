//! The methods of a channel: each to what it does or asks.

use crate::channel::{Channel, Mode};
use crate::connection::{Connection, Phase};
use crate::replies::{PendingRequest, Wanted};
use leveret_amqp::{Method, access, basic, channel, confirm, tx};
use leveret_client::contract::{Consume, Flow, Request, SettleOutcome, Topology};
use leveret_types::{ChannelId, ProtocolError, ReplyCode};

type Result = std::result::Result<(), ProtocolError>;

fn connection_error(code: ReplyCode, text: impl Into<std::borrow::Cow<'static, str>>) -> Result {
    Err(ProtocolError::connection(code, text))
}

fn precondition_failed(text: &'static str) -> Result {
    Err(ProtocolError::channel(ReplyCode::PreconditionFailed, text))
}

impl Connection {
    /// A method on a channel that is not closing.
    pub(crate) fn channel_method(
        &mut self,
        number: u16,
        method: Method<'_>,
        requests: &mut Vec<Request>,
    ) -> Result {
        assert_eq!(
            self.phase,
            Phase::Running,
            "channels exist in an open connection only"
        );
        let is_open = self.channels.contains_key(&number);
        match method {
            Method::ChannelOpen(_) if is_open => {
                connection_error(ReplyCode::ChannelError, "second 'channel.open' seen")
            }
            Method::ChannelOpen(_) => self.ask_for_channel(number, requests),
            _ if !is_open => connection_error(ReplyCode::ChannelError, "expected 'channel.open'"),
            Method::ChannelClose(_) => {
                self.close_channel(number, requests);
                Ok(())
            }
            Method::ChannelFlow(channel::Flow { active: true }) => {
                self.send(number, &channel::FlowOk { active: true });
                Ok(())
            }
            Method::ChannelFlow(_) => connection_error(ReplyCode::NotImplemented, "active=false"),
            Method::AccessRequest(_) => {
                self.send(number, &access::RequestOk { ticket: 1 });
                Ok(())
            }
            Method::ConfirmSelect(select) => self.select_confirms(number, select),
            Method::TxSelect(_) => self.select_transactions(number),
            Method::TxCommit(_) => self.commit(number, requests),
            Method::TxRollback(_) => self.roll_back(number),
            // Answers to what the broker sends: it does not wait for them.
            Method::BasicCancelOk(_) | Method::ChannelFlowOk(_) => Ok(()),
            method => self.basic_method(number, method, requests),
        }
    }

    fn basic_method(
        &mut self,
        number: u16,
        method: Method<'_>,
        requests: &mut Vec<Request>,
    ) -> Result {
        use SettleOutcome::{Accept, Reject, Requeue, RequeueRejected};
        match method {
            Method::BasicPublish(publish) => self.begin_publish(number, &publish),
            Method::BasicAck(m) => {
                self.settle(number, m.delivery_tag, m.multiple, Accept, requests)
            }
            Method::BasicNack(m) => {
                let outcome = if m.requeue { Requeue } else { Reject };
                self.settle(number, m.delivery_tag, m.multiple, outcome, requests)
            }
            Method::BasicReject(m) => {
                let outcome = if m.requeue { RequeueRejected } else { Reject };
                self.settle(number, m.delivery_tag, false, outcome, requests)
            }
            Method::BasicQos(qos) => self.qos(number, qos, requests),
            Method::BasicConsume(consume) => self.consume(number, &consume, requests),
            Method::BasicCancel(cancel) => {
                self.cancel(number, cancel, requests);
                Ok(())
            }
            Method::BasicGet(get) => {
                let queue = self.queue_name(number, get.queue)?;
                let (channel, no_ack) = (ChannelId(number), get.no_ack);
                self.pending_request = Some(PendingRequest::Get {
                    channel: number,
                    no_ack,
                });
                requests.push(Request::Get {
                    channel,
                    queue,
                    no_ack,
                });
                Ok(())
            }
            Method::BasicRecover(m) => {
                self.recover(number, m.requeue, requests)?;
                self.send(number, &basic::RecoverOk {});
                Ok(())
            }
            Method::BasicRecoverAsync(m) => self.recover(number, m.requeue, requests),
            method => self.topology_method(number, method, requests),
        }
    }

    fn topology_method(
        &mut self,
        number: u16,
        method: Method<'_>,
        requests: &mut Vec<Request>,
    ) -> Result {
        let (operation, nowait) = match method {
            Method::ExchangeDeclare(m) => (
                Topology::ExchangeDeclare {
                    name: m.exchange.to_owned(),
                    kind: m.kind.to_owned(),
                    passive: m.passive,
                    durable: m.durable,
                    auto_delete: m.auto_delete,
                    internal: m.internal,
                    arguments: m.arguments.to_table(),
                },
                m.nowait,
            ),
            Method::ExchangeDelete(m) => {
                let (name, if_unused) = (m.exchange.to_owned(), m.if_unused);
                (Topology::ExchangeDelete { name, if_unused }, m.nowait)
            }
            Method::ExchangeBind(m) => (
                Topology::ExchangeBind {
                    destination: m.destination.to_owned(),
                    source: m.source.to_owned(),
                    routing_key: m.routing_key.into(),
                    arguments: m.arguments.to_table(),
                },
                m.nowait,
            ),
            Method::ExchangeUnbind(m) => (
                Topology::ExchangeUnbind {
                    destination: m.destination.to_owned(),
                    source: m.source.to_owned(),
                    routing_key: m.routing_key.into(),
                    arguments: m.arguments.to_table(),
                },
                m.nowait,
            ),
            method => self.queue_method(number, method)?,
        };
        let wanted = Wanted::of(&operation);
        self.pending_request = Some(PendingRequest::Topology {
            channel: number,
            wanted,
            nowait,
        });
        requests.push(Request::Topology {
            channel: ChannelId(number),
            operation,
        });
        Ok(())
    }

    fn queue_method(
        &mut self,
        number: u16,
        method: Method<'_>,
    ) -> std::result::Result<(Topology, bool), ProtocolError> {
        Ok(match method {
            Method::QueueDeclare(m) => (
                Topology::QueueDeclare {
                    name: m.queue.to_owned(),
                    passive: m.passive,
                    durable: m.durable,
                    exclusive: m.exclusive,
                    auto_delete: m.auto_delete,
                    arguments: m.arguments.to_table(),
                },
                m.nowait,
            ),
            Method::QueueBind(m) => (
                Topology::QueueBind {
                    routing_key: self.binding_key(number, m.queue, m.routing_key)?,
                    queue: self.queue_name(number, m.queue)?,
                    exchange: m.exchange.to_owned(),
                    arguments: m.arguments.to_table(),
                },
                m.nowait,
            ),
            Method::QueueUnbind(m) => (
                Topology::QueueUnbind {
                    routing_key: self.binding_key(number, m.queue, m.routing_key)?,
                    queue: self.queue_name(number, m.queue)?,
                    exchange: m.exchange.to_owned(),
                    arguments: m.arguments.to_table(),
                },
                false,
            ),
            Method::QueuePurge(m) => {
                let queue = self.queue_name(number, m.queue)?;
                (Topology::QueuePurge { queue }, m.nowait)
            }
            Method::QueueDelete(m) => {
                let queue = self.queue_name(number, m.queue)?;
                let (if_unused, if_empty) = (m.if_unused, m.if_empty);
                (
                    Topology::QueueDelete {
                        queue,
                        if_unused,
                        if_empty,
                    },
                    m.nowait,
                )
            }
            _ => {
                let text = "unimplemented method";
                return Err(ProtocolError::connection(ReplyCode::CommandInvalid, text));
            }
        })
    }

    /// The queue that a name means: an empty one is the last that the channel declared.
    fn queue_name(&self, number: u16, name: &str) -> std::result::Result<String, ProtocolError> {
        if !name.is_empty() {
            return Ok(name.to_owned());
        }
        let last = self
            .channels
            .get(&number)
            .map_or("", |channel| &channel.last_queue);
        if last.is_empty() {
            let text = "no previously declared queue";
            return Err(ProtocolError::channel(ReplyCode::NotFound, text));
        }
        Ok(last.to_owned())
    }

    /// The key that a binding means: with no queue and no key given, it is the name of the last
    /// queue declared.
    fn binding_key(
        &self,
        number: u16,
        queue: &str,
        routing_key: &str,
    ) -> std::result::Result<Vec<u8>, ProtocolError> {
        if queue.is_empty() && routing_key.is_empty() {
            return self.queue_name(number, queue).map(String::into_bytes);
        }
        Ok(routing_key.into())
    }

    fn ask_for_channel(&mut self, number: u16, requests: &mut Vec<Request>) -> Result {
        let (count, max) = (self.channels.len(), self.terms.channel_max);
        if count >= usize::from(max) {
            let text = format!(
                "number of channels opened ({count}) has reached the negotiated channel_max ({max})"
            );
            return connection_error(ReplyCode::NotAllowed, text);
        }
        if number > max {
            let text = format!("channel {number} is above the negotiated channel_max ({max})");
            return connection_error(ReplyCode::ChannelError, text);
        }
        self.pending_request = Some(PendingRequest::OpenChannel { channel: number });
        requests.push(Request::OpenChannel {
            channel: ChannelId(number),
        });
        Ok(())
    }

    /// The client closes a channel.
    fn close_channel(&mut self, number: u16, requests: &mut Vec<Request>) {
        self.flush_channel(number);
        self.forget_consumers(number);
        self.channels.remove(&number);
        requests.push(Request::ChannelClosed {
            channel: ChannelId(number),
            error: None,
        });
        self.send(number, &channel::CloseOk {});
    }

    fn with_channel<T>(&mut self, number: u16, work: impl FnOnce(&mut Channel) -> T) -> T {
        work(
            self.channels
                .get_mut(&number)
                .expect("the channel was found open"),
        )
    }

    fn select_confirms(&mut self, number: u16, select: confirm::Select) -> Result {
        self.with_channel(number, |channel| match &channel.mode {
            Mode::Transaction(_) => precondition_failed("cannot switch from tx to confirm mode"),
            Mode::Confirm(_) => Ok(()),
            Mode::Plain => {
                channel.mode = Mode::Confirm(Box::default());
                Ok(())
            }
        })?;
        if !select.nowait {
            self.send(number, &confirm::SelectOk {});
        }
        Ok(())
    }

    fn select_transactions(&mut self, number: u16) -> Result {
        self.with_channel(number, |channel| match &channel.mode {
            Mode::Confirm(_) => precondition_failed("cannot switch from confirm to tx mode"),
            Mode::Transaction(_) => Ok(()),
            Mode::Plain => {
                channel.mode = Mode::Transaction(Box::default());
                Ok(())
            }
        })?;
        self.send(number, &tx::SelectOk {});
        Ok(())
    }

    fn qos(&mut self, number: u16, qos: basic::Qos, requests: &mut Vec<Request>) -> Result {
        if qos.prefetch_size != 0 {
            let text = format!("prefetch_size!=0 ({})", qos.prefetch_size);
            return connection_error(ReplyCode::NotImplemented, text);
        }
        let limit = self.with_channel(number, |channel| {
            let was_global = channel.prefetch_global;
            channel.prefetch_global = qos.global && qos.prefetch_count > 0;
            if qos.global {
                return Some(qos.prefetch_count);
            }
            channel.prefetch = qos.prefetch_count;
            // As in RabbitMQ, a limit for each consumer lifts one for all together.
            was_global.then_some(0)
        });
        if let Some(limit) = limit {
            requests.push(Request::ChannelPrefetch {
                channel: ChannelId(number),
                limit,
            });
        }
        self.send(number, &basic::QosOk {});
        Ok(())
    }

    fn consume(
        &mut self,
        number: u16,
        consume: &basic::Consume<'_>,
        requests: &mut Vec<Request>,
    ) -> Result {
        let max = self.settings.consumers_per_channel_max;
        let prefix = self.times.now.wall_ms;
        let queue = self.queue_name(number, consume.queue)?;
        let channel = self
            .channels
            .get_mut(&number)
            .expect("the channel was found open");
        if channel.consumers.contains_key(consume.consumer_tag) {
            let text = format!("attempt to reuse consumer tag '{}'", consume.consumer_tag);
            return connection_error(ReplyCode::NotAllowed, text);
        }
        if channel.consumers.len() >= max {
            let text = format!("reached maximum ({max}) of consumers per channel");
            return connection_error(ReplyCode::NotAllowed, text);
        }
        let tag = match consume.consumer_tag {
            "" => generate_tag(channel, prefix, number),
            tag => tag.to_owned(),
        };
        let no_ack = consume.no_ack;
        let prefetch = channel.prefetch;
        let nowait = consume.nowait;
        self.pending_request = Some(PendingRequest::Consume {
            channel: number,
            tag: tag.clone(),
            no_ack,
            nowait,
        });
        requests.push(Request::Consume(Consume {
            channel: ChannelId(number),
            queue,
            tag,
            no_ack,
            exclusive: consume.exclusive,
            flow: Flow::Prefetch(prefetch),
            arguments: consume.arguments.to_table(),
        }));
        Ok(())
    }

    fn cancel(&mut self, number: u16, cancel: basic::Cancel<'_>, requests: &mut Vec<Request>) {
        let tag = cancel.consumer_tag;
        let nowait = cancel.nowait;
        let known = self.with_channel(number, |channel| channel.consumers.get(tag).copied());
        let Some(consumer) = known else {
            // It may have ended a moment ago. The specification wants no error.
            if !nowait {
                self.send(number, &basic::CancelOk { consumer_tag: tag });
            }
            return;
        };
        self.pending_request = Some(PendingRequest::Cancel {
            channel: number,
            consumer,
            tag: tag.to_owned(),
            nowait,
        });
        requests.push(Request::Cancel {
            channel: ChannelId(number),
            consumer,
        });
    }
}

/// A consumer tag that the channel does not know. Others must not guess anything from it, and
/// nobody relies on it but the client that is told: moment, channel and count make it differ from
/// those of other channels well enough.
fn generate_tag(channel: &mut Channel, wall_ms: u64, number: u16) -> String {
    loop {
        channel.tags_generated += 1;
        let tag = format!("amq.ctag-{wall_ms:x}-{number}-{}", channel.tags_generated);
        if !channel.consumers.contains_key(&*tag) {
            return tag;
        }
    }
}
