//! A node in this process, and a client that says frame by frame what it wants.

use leveret_amqp::client::Opening;
use leveret_amqp::{
    EncodeMethod, FrameKind, Method, PROTOCOL_HEADER, TableBuilder, connection, encode,
};
use leveret_auth::{HashingAlgorithm, PasswordHash};
use leveret_metadata::Catalogue;
use leveret_node::NodeSettings;
use leveret_node::StreamSessions;
use leveret_node::certificate::NameFrom;
use leveret_session::Settings;
use leveret_shell::admission::AdmissionLimits;
use leveret_shell::disk::RealDisk;
use leveret_shell::node::{Node, NodeConfig, StreamAddress};
use leveret_shell::timers_and_alarms::Watermarks;
use leveret_shell::tls::TlsFiles;
use leveret_storage::Folders;
use leveret_types::FieldValue;
use leveret_types::limits::{CACHE_BYTES, FRAME_BYTES_MAX};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// How long a node may take to answer.
pub const ANSWER: Duration = Duration::from_secs(20);

/// A folder of a test's own, gone with it. The name tells whose it is while it is there.
pub fn scratch(name: &str) -> TempDir {
    let prefix = format!("leveret-shell-{name}-");
    TempDir::with_prefix(prefix).expect("a scratch folder")
}

/// Connections of one address that have not logged in, of such a node.
pub const PENDING_MAX: usize = 20;

/// Starts a node on free ports of this machine: with TLS and EXTERNAL where there are certificates.
pub fn start(folder: &Path, tls: Option<TlsFiles>) -> Node {
    start_on(RealDisk::new(), folder, tls)
}

/// Starts a node as [`start`] does, on a disk of the test's making.
pub fn start_on(disk: RealDisk, folder: &Path, tls: Option<TlsFiles>) -> Node {
    Node::start(config(folder, tls), disk).expect("the node starts")
}

/// What such a node is started with.
pub fn config(folder: &Path, tls: Option<TlsFiles>) -> NodeConfig {
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    let password = PasswordHash::new(HashingAlgorithm::Sha256, b"guest", &[7; 16]);
    let mechanisms = if tls.is_some() {
        "EXTERNAL PLAIN"
    } else {
        "PLAIN"
    };
    let session = Arc::new(Settings {
        mechanisms: mechanisms.to_owned(),
        ..Settings::default()
    });
    NodeConfig {
        folders: Folders::within(folder),
        amqp: vec![any],
        amqps: tls.iter().map(|_| any).collect(),
        stream: vec![StreamAddress {
            address: any,
            tls: false,
            is_default: false,
        }],
        tls,
        io_threads: 2,
        shards: 2,
        cache_bytes: CACHE_BYTES,
        wal_file_bytes: 4 * 1024 * 1024,
        watermarks: Watermarks {
            memory_bytes: u64::MAX,
            memory_full_bytes: u64::MAX,
            disk_free_bytes: 0,
        },
        give_back_memory: || {},
        drain: Duration::from_secs(10),
        catalogue: leveret_metadata::Config::default(),
        admission: AdmissionLimits {
            pending_per_address: PENDING_MAX,
            ..AdmissionLimits::default()
        },
        first_boot: Catalogue::defaults("guest", password.expect("a password"), "/"),
        prepare: None,
        settings: NodeSettings {
            session: Arc::clone(&session),
            session_tls: session,
            stream: StreamSessions::default(),
            shard_count: 0,
            node_name: "leveret@test".to_owned(),
            hashing: HashingAlgorithm::Sha256,
            certificate_name: NameFrom::CommonName,
            anonymous: None,
            login_failure_delay_ms: 0,
            traces: None,
        },
        cluster: None,
    }
}

/// The address of a node's listener, with TLS or without.
pub fn address(node: &Node, tls: bool) -> SocketAddr {
    let found = node.listening.iter().find(|(_, is_tls)| *is_tls == tls);
    found.expect("such a listener").0
}

/// A TCP connection that gives up when the node does not answer.
pub fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("the node listens");
    socket.set_read_timeout(Some(ANSWER)).expect("a deadline");
    socket
}

/// An AMQP client over any stream.
pub struct Client<S> {
    stream: S,
    input: Vec<u8>,
}

impl<S: Read + Write> Client<S> {
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            input: Vec::new(),
        }
    }

    /// Connects, logs in by `mechanism`, opens the virtual host and channel 1.
    ///
    /// # Errors
    /// If the stream ends, or TLS fails, before that is done.
    pub fn log_in(stream: S, mechanism: &str, response: &[u8]) -> io::Result<Self> {
        Self::log_in_beating(stream, mechanism, response, 0)
    }

    /// The same, with a heartbeat of so many seconds.
    ///
    /// # Errors
    /// See [`Self::log_in`].
    pub fn log_in_beating(
        stream: S,
        mechanism: &str,
        response: &[u8],
        heartbeat: u16,
    ) -> io::Result<Self> {
        let mut client = Self::new(stream);
        client.stream.write_all(&PROTOCOL_HEADER)?;
        client.answer()?;
        let hears_of_alarms = [("connection.blocked", FieldValue::Bool(true))].into();
        let mut properties = TableBuilder::new();
        properties.push("capabilities", &FieldValue::Table(hears_of_alarms));
        let opening = Opening {
            properties: properties.as_table(),
            mechanism,
            response,
            channel_max: 2_047,
            heartbeat,
            ..Opening::default()
        };
        let mut bytes = Vec::new();
        opening.handshake(&mut bytes);
        client.send_bytes(&bytes)?;
        for _tune_and_open_ok in 0..2 {
            client.answer()?;
        }
        client.call(1, &leveret_amqp::channel::Open {})?;
        Ok(client)
    }

    pub fn send(&mut self, channel: u16, method: &impl EncodeMethod) -> io::Result<()> {
        let mut bytes = Vec::new();
        encode::method(&mut bytes, channel, method);
        self.send_bytes(&bytes)
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Sends a method and gives the payload of the method that answers it.
    pub fn call(&mut self, channel: u16, method: &impl EncodeMethod) -> io::Result<Vec<u8>> {
        self.send(channel, method)?;
        self.answer()
    }

    /// The payload of the next method.
    pub fn answer(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let next = leveret_amqp::next_frame(&self.input, FRAME_BYTES_MAX);
            if let Some(frame) = next.expect("the node sends frames") {
                let (payload, kind) = (frame.payload.to_vec(), frame.kind);
                let length = payload.len() + leveret_types::limits::FRAME_OVERHEAD_BYTES as usize;
                self.input.drain(..length);
                if kind != FrameKind::Method {
                    continue;
                }
                Method::decode(&payload).expect("the node sends methods");
                return Ok(payload);
            }
            let mut bytes = [0; 4_096];
            match self.stream.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.input.extend_from_slice(&bytes[..count]),
            }
        }
    }

    /// Closes the connection in order.
    pub fn close(mut self) {
        let close = connection::Close {
            reply_code: 200,
            reply_text: "bye",
            class_id: 0,
            method_id: 0,
        };
        let answer = self.call(0, &close).expect("an answer");
        assert!(matches!(
            Method::decode(&answer),
            Ok(Method::ConnectionCloseOk(_))
        ));
    }
}
