//! Connections with their channels open: at the beginning one after another, and while a load runs,
//! where one broke, on threads beside those that drive the load.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mio::Waker;
use rustls::ClientConfig;

use crate::client::{self, Client, Opened};
use crate::error::Error;
use crate::stream::StreamClient;
use crate::uri::{Protocol, Uri};

/// How long a broker may take for an answer while a connection is opened again. Shorter than at the
/// beginning: another may be better.
const PATIENCE: Duration = Duration::from_secs(5);
/// Threads that open connections again, for each thread that drives some.
const THREADS: usize = 4;

/// How a channel is set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelSetup {
    /// Whether its publishes are confirmed.
    pub confirms: bool,
    /// Deliveries that may wait for a settle; 0: no bound.
    pub prefetch: u16,
    /// The stream that is published to, where the protocol asks for it.
    pub stream: Option<String>,
}

/// Opens connections to the run's brokers.
#[derive(Debug)]
pub struct Dialer {
    /// The brokers.
    pub uris: Vec<Uri>,
    /// How TLS is checked, where one of them asks for it.
    pub tls: Option<Arc<ClientConfig>>,
}

impl Dialer {
    /// A client of broker number `uri`.
    ///
    /// # Errors
    /// If the broker is not there, or does not let the user in.
    pub fn client(&self, uri: usize) -> Result<Client, Error> {
        Client::connect(&self.uris[uri], self.tls.as_ref())
    }

    /// A connection to broker number `uri` for an event loop, with these channels from number 1.
    ///
    /// # Errors
    /// As [`Self::client`], or if it refuses a channel.
    pub fn open(&self, uri: usize, channels: &[ChannelSetup]) -> Result<Opened, Error> {
        self.open_within(uri, channels, client::PATIENCE)
    }

    fn open_again(&self, uri: usize, channels: &[ChannelSetup]) -> Result<Opened, Error> {
        self.open_within(uri, channels, PATIENCE)
    }

    fn open_within(
        &self,
        uri: usize,
        channels: &[ChannelSetup],
        patience: Duration,
    ) -> Result<Opened, Error> {
        let (uri, tls) = (&self.uris[uri], self.tls.as_ref());
        match uri.protocol {
            Protocol::Amqp => open_channels(Client::connect_within(uri, tls, patience)?, channels),
            Protocol::Stream => {
                open_publishers(StreamClient::connect_within(uri, tls, patience)?, channels)
            }
        }
    }

    /// A client of the stream protocol of broker number `uri`.
    ///
    /// # Errors
    /// As [`Self::client`].
    pub fn stream_client(&self, uri: usize) -> Result<StreamClient, Error> {
        let tls = self.tls.as_ref();
        StreamClient::connect_within(&self.uris[uri], tls, client::PATIENCE)
    }
}

/// Publishers by number, each of the stream that its channel names.
fn open_publishers(mut client: StreamClient, channels: &[ChannelSetup]) -> Result<Opened, Error> {
    for (publisher_id, setup) in (0..=u8::MAX).zip(channels) {
        if let Some(stream) = &setup.stream {
            client.declare_publisher(publisher_id, stream)?;
        }
    }
    client.into_opened()
}

fn open_channels(mut client: Client, channels: &[ChannelSetup]) -> Result<Opened, Error> {
    for (number, setup) in (1..).zip(channels) {
        client.open_channel(number)?;
        if setup.confirms {
            client.confirm_select(number)?;
        }
        if setup.prefetch > 0 {
            client.qos(number, setup.prefetch)?;
        }
    }
    client.into_opened()
}

/// A connection that is to be opened again.
pub struct Request {
    /// Its number among its thread's.
    pub connection: usize,
    /// The broker to try.
    pub uri: usize,
    /// Its channels.
    pub channels: Arc<[ChannelSetup]>,
}

/// What came of a [`Request`].
pub struct Answer {
    /// The connection's number.
    pub connection: usize,
    /// It, or why it could not be opened.
    pub result: Result<Opened, Error>,
}

/// Opens connections again, a few at a time. Its threads start with the first request, and end with
/// it, the one that waits for a broker when that has answered or its patience is over.
pub struct Redialer {
    dialer: Arc<Dialer>,
    waker: Arc<Waker>,
    requests: Option<Sender<Request>>,
    answers: (Sender<Answer>, Receiver<Answer>),
}

impl Redialer {
    /// Wakes `waker` with each answer.
    #[must_use]
    pub fn new(dialer: Arc<Dialer>, waker: Arc<Waker>) -> Self {
        Self {
            dialer,
            waker,
            requests: None,
            answers: channel(),
        }
    }

    /// Has a connection opened.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn ask(&mut self, request: Request) -> Result<(), Error> {
        let requests = match self.requests.take() {
            Some(requests) => requests,
            None => self.start()?,
        };
        // Its threads live as long as this end does.
        let _ = requests.send(request);
        self.requests = Some(requests);
        Ok(())
    }

    fn start(&self) -> Result<Sender<Request>, Error> {
        let (sender, receiver) = channel::<Request>();
        let receiver = Arc::new(Mutex::new(receiver));
        for at in 0..THREADS {
            let (dialer, waker) = (Arc::clone(&self.dialer), Arc::clone(&self.waker));
            let (receiver, answers) = (Arc::clone(&receiver), self.answers.0.clone());
            let next = move || {
                let requests = receiver.lock().unwrap_or_else(PoisonError::into_inner);
                requests.recv().ok()
            };
            let work = move || {
                while let Some(request) = next() {
                    let result = dialer.open_again(request.uri, &request.channels);
                    let connection = request.connection;
                    let told = answers.send(Answer { connection, result });
                    if told.is_err() || waker.wake().is_err() {
                        return;
                    }
                }
            };
            let thread = std::thread::Builder::new().name(format!("perf-dial-{at}"));
            thread.spawn(work).map_err(Error::io("start a thread"))?;
        }
        Ok(sender)
    }

    /// An answer that came, if one did.
    #[must_use]
    pub fn answer(&self) -> Option<Answer> {
        // Nothing was asked, or all are still at it.
        self.requests.as_ref()?;
        self.answers.1.try_recv().ok()
    }
}
