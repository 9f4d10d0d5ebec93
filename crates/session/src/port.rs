//! The session as the broker's side of a connection drives it.

use crate::Connection;
use crate::connection::End;
use bytes::Bytes;
use leveret_client::{
    Answered, Awaited, ChannelStatus, DeliveredTo, Delivery, Reply, Request, Session, SessionEnd,
    SessionLatencies, SessionState, SessionStatus, UnsettledDelivery, UnsettledPosition,
};
use leveret_types::{
    ChannelId, ConsumerId, Message, Now, OutBuffer, ProtocolError, QueueId, ReplyCode, ShardId,
};
use std::ops::Range;

/// Methods that the session has under the same names, with their arguments and what they answer.
macro_rules! as_named {
    ($(fn $name:ident(&self $(, $argument:ident: $of:ty)*) $(-> $answer:ty)?;)*) => {
        $(
            #[inline]
            fn $name(&self $(, $argument: $of)*) $(-> $answer)? {
                Self::$name(self $(, $argument)*)
            }
        )*
    };
}

/// The same for those that change it.
macro_rules! as_named_mut {
    ($(fn $name:ident(&mut self $(, $argument:ident: $of:ty)*) $(-> $answer:ty)?;)*) => {
        $(
            #[inline]
            fn $name(&mut self $(, $argument: $of)*) $(-> $answer)? {
                Self::$name(self $(, $argument)*)
            }
        )*
    };
}

impl Session for Connection {
    as_named_mut! {
        fn receive(&mut self, now: Now, bytes: Bytes, requests: &mut Vec<Request>);
        fn set_now(&mut self, now: Now);
        fn tick(&mut self, now: Now, requests: &mut Vec<Request>);
        fn unread(&mut self, at: Now);
        fn reply(&mut self, now: Now, reply: Reply, requests: &mut Vec<Request>);
        fn fail(
            &mut self,
            now: Now,
            channel: ChannelId,
            error: ProtocolError,
            requests: &mut Vec<Request>
        );
        fn close(&mut self, error: ProtocolError);
        fn teardown(&mut self, requests: &mut Vec<Request>);
        fn deliver(&mut self, delivery: &Delivery) -> bool;
        fn returned(&mut self, channel: ChannelId, message: &Message, code: ReplyCode, text: &str);
        fn consumer_cancelled(&mut self, consumer: ConsumerId);
        fn blocked(&mut self, reason: Option<&str>);
        fn accepted(&mut self, channel: ChannelId, number: u64, waits: &[(Awaited, u64)]);
        fn rejected(&mut self, channel: ChannelId, number: u64);
        fn durable(&mut self, shard: ShardId, through: u64);
        fn committed(&mut self, queue: QueueId, through: u64);
        fn refused(&mut self, queue: QueueId, sequences: &Range<u64>);
        fn flush(&mut self);
        fn take_answered(&mut self) -> Answered;
        fn latencies(&mut self) -> &mut SessionLatencies;
        fn beat(&mut self);
        fn output(&mut self) -> &mut OutBuffer;
    }

    as_named! {
        fn deadline(&self) -> Option<u64>;
        fn suspended(&self) -> bool;
        fn counts(&self, channel: ChannelId) -> bool;
        fn awaits_durability(&self) -> bool;
        fn state(&self) -> SessionState;
        fn ends_output(&self) -> bool;
        fn alarmed(&self) -> bool;
        fn is_blocked(&self) -> bool;
        fn lacks_bytes(&self) -> Option<usize>;
        fn published_yet(&self) -> bool;
        fn is_transactional(&self, channel: ChannelId) -> bool;
        fn hears_of_cancels(&self) -> bool;
        fn unsettled_by(&self, channel: ChannelId, consumer: ConsumerId) -> usize;
        fn oldest_unsettled(&self, channels: &[ChannelId]) -> Vec<(ConsumerId, u64)>;
        fn delivered_to(&self, consumer: ConsumerId) -> DeliveredTo;
        fn unsettled_among(
            &self,
            channels: &[ChannelId],
            places: &[UnsettledPosition]
        ) -> Vec<UnsettledDelivery>;
    }

    fn end(&self) -> Option<SessionEnd> {
        Some(match Self::end(self)? {
            End::Client => SessionEnd::Client,
            End::Error(error) => SessionEnd::Error(error.clone()),
            other => SessionEnd::Other(other.to_string()),
        })
    }

    fn status(&self) -> SessionStatus {
        SessionStatus {
            protocol: "AMQP 0-9-1",
            client_properties: self.client_properties(),
            frame_max: self.frame_max(),
            channel_max: self.channel_max(),
            heartbeat_seconds: self.heartbeat_seconds(),
            unsent_bytes: self.unsent_bytes() as u64,
        }
    }

    fn channels(&self) -> Vec<ChannelStatus> {
        Self::channels(self).collect()
    }
}
