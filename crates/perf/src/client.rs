//! A client that waits for each answer: it sets connections up before the load, and takes queues
//! down after it.

use std::sync::Arc;
use std::time::Duration;

use leveret_amqp::client::{Opening, ServerFrame, next_server_frame};
use leveret_amqp::{
    EncodeMethod, Method, PROTOCOL_HEADER, RawTable, TableBuilder, basic, channel, confirm,
    connection, encode, exchange, queue,
};
use leveret_types::limits::{FRAME_BYTES_MAX, FRAME_BYTES_MIN};
use leveret_types::{FieldTable, FieldValue, ReplyCode};
use rustls::ClientConfig;

use crate::awaited::Awaited;
use crate::error::Error;
use crate::stream::Session;
use crate::transport::Transport;
use crate::uri::Uri;

/// How long a broker may take for an answer.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that was opened.
pub struct Client {
    awaited: Awaited,
    output: Vec<u8>,
    frame_max: u32,
    server: FieldTable,
}

/// What a load's event loop goes on with.
pub struct Opened {
    /// The stream.
    pub transport: Transport,
    /// Bytes that were read and not looked at.
    pub input: Vec<u8>,
    /// Bytes of a frame at most, as agreed.
    pub frame_max: u32,
    /// Host and port, for errors.
    pub place: String,
    /// The protocol's state, where it is the one of streams.
    pub session: Option<Session>,
}

/// What an answer said, as far as anybody asks.
enum Answer {
    Start(FieldTable),
    Tune(connection::Tune),
    Declared { name: String, ready: u32 },
    Other,
}

impl Client {
    /// Connects, logs in, opens the virtual host.
    ///
    /// # Errors
    /// If the broker is not there, or does not let the user in.
    pub fn connect(uri: &Uri, tls: Option<&Arc<ClientConfig>>) -> Result<Self, Error> {
        Self::connect_within(uri, tls, PATIENCE)
    }

    /// The same, for a broker that may take so long for each answer.
    ///
    /// # Errors
    /// See [`Self::connect`].
    pub fn connect_within(
        uri: &Uri,
        tls: Option<&Arc<ClientConfig>>,
        patience: Duration,
    ) -> Result<Self, Error> {
        let mut client = Self {
            awaited: Awaited::connect(uri, tls, patience)?,
            output: PROTOCOL_HEADER.to_vec(),
            frame_max: FRAME_BYTES_MIN,
            server: FieldTable::new(),
        };
        client.open(uri)?;
        Ok(client)
    }

    fn open(&mut self, uri: &Uri) -> Result<(), Error> {
        self.flush()?;
        if let Answer::Start(server) = self.answer("connection.start")? {
            self.server = server;
        }
        let response = format!("\0{}\0{}", uri.user, uri.password);
        let mut properties = TableBuilder::default();
        properties.push("product", &FieldValue::text("leveret perf"));
        let capabilities = [
            "publisher_confirms",
            "basic.nack",
            "connection.blocked",
            // Without it a broker closes the socket without a word when it refuses the login.
            "authentication_failure_close",
        ];
        let capabilities = capabilities.map(|name| (name, FieldValue::Bool(true)));
        let capabilities = FieldTable::from(capabilities);
        properties.push("capabilities", &FieldValue::Table(capabilities));
        let opening = Opening {
            properties: properties.as_table(),
            response: response.as_bytes(),
            ..Opening::default()
        };
        self.send(0, &opening.start_ok());
        let answer = self
            .call_sent("connection.tune")
            .map_err(|error| match error {
                Error::Closed {
                    place, code, text, ..
                } if code == ReplyCode::AccessRefused.code() => Error::Login {
                    place,
                    user: uri.user.clone(),
                    text,
                },
                other => other,
            });
        let tune = match answer? {
            Answer::Tune(tune) => tune,
            _ => return Err(self.awaited.protocol("no connection.tune".to_owned())),
        };
        self.frame_max = match tune.frame_max {
            0 => FRAME_BYTES_MAX,
            proposed => proposed.clamp(FRAME_BYTES_MIN, FRAME_BYTES_MAX),
        };
        // No heartbeats: a generator that is held back must not be cut off for it.
        let tune_ok = connection::TuneOk {
            channel_max: tune.channel_max,
            frame_max: self.frame_max,
            heartbeat: 0,
        };
        self.send(0, &tune_ok);
        let virtual_host = uri.virtual_host.as_str();
        self.send(0, &connection::Open { virtual_host });
        self.call_sent("connection.open-ok")?;
        Ok(())
    }

    /// Product and version, as the broker names itself.
    #[must_use]
    pub fn product(&self) -> (String, String) {
        let text = |key| {
            let value = self.server.get(key).and_then(FieldValue::as_text);
            value.unwrap_or("unknown").to_owned()
        };
        // Leveret calls its product RabbitMQ, for clients that look, and its platform by its name.
        match text("platform").split_once("Leveret ") {
            Some(("", version)) => ("Leveret".to_owned(), version.to_owned()),
            _ => (text("product"), text("version")),
        }
    }

    /// Bytes of a frame at most, as agreed.
    #[must_use]
    pub fn frame_max(&self) -> u32 {
        self.frame_max
    }

    /// Opens a channel.
    ///
    /// # Errors
    /// If the broker does not answer, or refuses; so for all that follow.
    pub fn open_channel(&mut self, number: u16) -> Result<(), Error> {
        self.call(number, &channel::Open {}, "channel.open-ok")
    }

    /// Asks for confirms.
    ///
    /// # Errors
    /// See [`Self::open_channel`].
    pub fn confirm_select(&mut self, number: u16) -> Result<(), Error> {
        let select = confirm::Select { nowait: false };
        self.call(number, &select, "confirm.select-ok")
    }

    /// Sets how many deliveries may wait for a settle.
    ///
    /// # Errors
    /// See [`Self::open_channel`].
    pub fn qos(&mut self, number: u16, prefetch_count: u16) -> Result<(), Error> {
        let qos = basic::Qos {
            prefetch_size: 0,
            prefetch_count,
            global: false,
        };
        self.call(number, &qos, "basic.qos-ok")
    }

    /// Declares a queue; gives its name and how many messages are ready in it.
    ///
    /// # Errors
    /// See [`Self::open_channel`].
    pub fn declare_queue(
        &mut self,
        number: u16,
        declare: &queue::Declare<'_>,
    ) -> Result<(String, u32), Error> {
        self.send(number, declare);
        match self.call_sent("queue.declare-ok")? {
            Answer::Declared { name, ready } => Ok((name, ready)),
            _ => Err(self.awaited.protocol("no queue.declare-ok".to_owned())),
        }
    }

    /// Declares an exchange.
    ///
    /// # Errors
    /// See [`Self::open_channel`].
    pub fn declare_exchange(
        &mut self,
        number: u16,
        declare: &exchange::Declare<'_>,
    ) -> Result<(), Error> {
        self.call(number, declare, "exchange.declare-ok")
    }

    /// Binds a queue.
    ///
    /// # Errors
    /// See [`Self::open_channel`].
    pub fn bind(
        &mut self,
        number: u16,
        queue: &str,
        exchange: &str,
        routing_key: &str,
    ) -> Result<(), Error> {
        let bind = queue::Bind {
            queue,
            exchange,
            routing_key,
            nowait: false,
            arguments: RawTable::EMPTY,
        };
        self.call(number, &bind, "queue.bind-ok")
    }

    /// Deletes a queue, whatever is in it.
    ///
    /// # Errors
    /// See [`Self::open_channel`].
    pub fn delete_queue(&mut self, number: u16, queue: &str) -> Result<(), Error> {
        let delete = queue::Delete {
            queue,
            if_unused: false,
            if_empty: false,
            nowait: false,
        };
        self.call(number, &delete, "queue.delete-ok")
    }

    /// Deletes an exchange that nothing is bound to.
    ///
    /// # Errors
    /// See [`Self::open_channel`]; code 406 where something is.
    pub fn delete_exchange(&mut self, number: u16, exchange: &str) -> Result<(), Error> {
        let delete = exchange::Delete {
            exchange,
            if_unused: true,
            nowait: false,
        };
        self.call(number, &delete, "exchange.delete-ok")
    }

    /// Closes in order.
    ///
    /// # Errors
    /// See [`Self::open_channel`].
    pub fn close(mut self) -> Result<(), Error> {
        self.call(0, &CLOSE, "connection.close-ok")
    }

    /// Hands the connection to an event loop.
    ///
    /// # Errors
    /// Of the socket.
    pub fn into_opened(self) -> Result<Opened, Error> {
        let (transport, input, place) = self.awaited.into_nonblocking()?;
        Ok(Opened {
            transport,
            input,
            frame_max: self.frame_max,
            place,
            session: None,
        })
    }

    fn send(&mut self, number: u16, method: &impl EncodeMethod) {
        encode::method(&mut self.output, number, method);
    }

    fn call(
        &mut self,
        number: u16,
        method: &impl EncodeMethod,
        wanted: &'static str,
    ) -> Result<(), Error> {
        self.send(number, method);
        self.call_sent(wanted).map(|_| ())
    }

    fn call_sent(&mut self, wanted: &'static str) -> Result<Answer, Error> {
        self.flush()?;
        self.answer(wanted)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.awaited.send(&mut self.output)
    }

    /// Waits for a method of that name.
    fn answer(&mut self, wanted: &'static str) -> Result<Answer, Error> {
        loop {
            match next_server_frame(self.awaited.input(), self.frame_max) {
                Err(error) => return Err(self.awaited.protocol(error.to_string())),
                Ok(None) => self.awaited.fill()?,
                Ok(Some((_, heard, bytes))) => {
                    let found = match heard {
                        ServerFrame::Method(method) => {
                            read_answer(self.awaited.place(), &method, wanted)
                        }
                        _ => Ok(None),
                    };
                    self.awaited.consume(bytes);
                    if let Some(answer) = found? {
                        return Ok(answer);
                    }
                }
            }
        }
    }
}

/// What ends a connection in order.
pub const CLOSE: connection::Close<'static> = connection::Close {
    reply_code: 200,
    reply_text: "done",
    class_id: 0,
    method_id: 0,
};

/// The broker's reason for a `channel.close` or `connection.close`, as an error.
#[must_use]
pub fn closed(place: &str, method: &Method<'_>) -> Option<Error> {
    let (scope, code, text) = match method {
        Method::ConnectionClose(close) => ("connection", close.reply_code, close.reply_text),
        Method::ChannelClose(close) => ("channel", close.reply_code, close.reply_text),
        _ => return None,
    };
    Some(Error::Closed {
        place: place.to_owned(),
        scope,
        code,
        text: text.to_owned(),
    })
}

/// The answer, if the method is the one that is wanted; others (`connection.blocked`) are no
/// answer.
fn read_answer(place: &str, method: &Method<'_>, wanted: &str) -> Result<Option<Answer>, Error> {
    if let Some(error) = closed(place, method) {
        return Err(error);
    }
    if method.name() != wanted {
        return Ok(None);
    }
    Ok(Some(match method {
        Method::ConnectionStart(start) => Answer::Start(start.server_properties.to_table()),
        Method::ConnectionTune(tune) => Answer::Tune(*tune),
        Method::QueueDeclareOk(declared) => Answer::Declared {
            name: declared.queue.to_owned(),
            ready: declared.message_count,
        },
        _ => Answer::Other,
    }))
}
