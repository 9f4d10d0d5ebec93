//! A node of the real binary, as tests start, ask and end it.

#[path = "../../../../management/tests/fake/certificate.rs"]
mod certificate;

use base64::Engine as _;
use certificate::Certificate;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

pub const BINARY: &str = env!("CARGO_BIN_EXE_leveret");

/// A folder of a test's own, gone at its end.
pub struct Folder(TempDir);

impl Folder {
    pub fn new(name: &str) -> Self {
        let prefix = format!("leveret-{name}-");
        Self(TempDir::with_prefix(prefix).expect("a folder"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    }
}

/// `leveret serve` on free ports, with an environment that says nothing.
pub fn serve(data: &Path) -> Command {
    serve_with_metrics(data, "none")
}

/// The same with metrics at this address.
pub fn serve_with_metrics(data: &Path, metrics: &str) -> Command {
    let mut command = Command::new(BINARY);
    command.env_clear().args(["serve", "--data-dir"]).arg(data);
    command.args(["--amqp", "127.0.0.1:0", "--metrics", metrics]);
    command.args(["--stream", "127.0.0.1:0"]);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// A running node; it is killed with the test.
pub struct Node {
    pub process: Child,
    pub data: PathBuf,
}

impl Node {
    pub fn start(command: &mut Command, data: &Path) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let ready = lines
            .map_while(Result::ok)
            .any(|line| line.contains("ready"));
        assert!(ready, "it ended before it was ready");
        Self {
            process,
            data: data.to_owned(),
        }
    }

    /// A node that is asked by its socket file alone: the usual port of the HTTP API may be another
    /// test's.
    pub fn without_http(data: &Path) -> Self {
        Self::start(serve(data).args(["--http", "none"]), data)
    }

    pub fn ctl(&self, words: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command
            .env_clear()
            .args(["ctl", "--data-dir"])
            .arg(&self.data);
        command.args(words).output().expect("it runs")
    }

    pub fn told(&self, words: &[&str]) -> String {
        let output = self.ctl(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// What `leveret` itself does with these words.
    pub fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command.env_clear().args(words).arg("--data-dir");
        command.arg(&self.data).output().expect("it runs")
    }

    /// What `leveret` itself says to these words.
    pub fn says(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// The port at which a protocol is served.
    pub fn port(&self, protocol: &str) -> u16 {
        let listeners = self.told(&["-q", "listeners"]);
        let wanted = format!(", protocol: {protocol}");
        let line = listeners.lines().find(|line| line.ends_with(&wanted));
        let port = line.and_then(|line| line.split("port: ").nth(1)?.split(',').next());
        port.and_then(|port| port.parse().ok())
            .unwrap_or_else(|| panic!("no {protocol} in {listeners}"))
    }

    /// What `/metrics` says; an answer with its head.
    pub fn metrics(&self) -> String {
        let address = ("127.0.0.1", self.port("http/prometheus"));
        let mut socket = TcpStream::connect(address).expect("it listens");
        let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        socket.write_all(request).expect("it is sent");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Asks the HTTP API by the socket file; the answer, head and body.
    pub fn http(&self, method: &str, path: &str, body: &str) -> String {
        let token = fs::read_to_string(self.data.join("cli.token")).expect("the token");
        self.http_by(&format!("Bearer {}", token.trim()), method, path, body)
    }

    /// The same as a user.
    pub fn http_as(&self, user: &str, password: &str, path: &str) -> String {
        let engine = base64::engine::general_purpose::STANDARD;
        let claim = engine.encode(format!("{user}:{password}"));
        self.http_by(&format!("Basic {claim}"), "GET", path, "")
    }

    fn http_by(&self, authorization: &str, method: &str, path: &str, body: &str) -> String {
        let mut socket = UnixStream::connect(self.data.join("control.sock")).expect("the socket");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: node\r\nAuthorization: {authorization}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(request.as_bytes()).expect("it is sent");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Publishes a persistent message of this text to a queue.
    pub fn publish(&self, vhost: &str, queue: &str, text: &str) {
        let body = format!(
            r#"{{"properties":{{"delivery_mode":2}},"routing_key":"{queue}","payload":"{text}","payload_encoding":"string"}}"#
        );
        let path = format!("/api/exchanges/{vhost}/amq.default/publish");
        let answer = self.http("POST", &path, &body);
        assert!(answer.contains("\"routed\":true"), "{answer}");
    }

    pub fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Sends SIGTERM; whether it ended well.
    pub fn terminate(mut self) -> bool {
        self.signal("-TERM");
        self.process.wait().expect("it ends").success()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Loopback addresses that are free.
pub fn free_addresses(count: usize) -> Vec<String> {
    // Below the ports that the kernel gives to clients, which may take them before the nodes do.
    let first = RandomState::new().hash_one(()) as usize % 6_000;
    let ports = (26_000_u16..32_768).skip(first);
    let free = ports.filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    // Held together, so that no two are the same.
    let sockets: Vec<TcpListener> = free.take(count).collect();
    let address = |socket: &TcpListener| socket.local_addr().expect("bound").to_string();
    sockets.iter().map(address).collect()
}

/// Settings of a server with a certificate of its own for `localhost`, which is written to a file.
pub fn certificate(path: &Path) -> Arc<rustls::ServerConfig> {
    let made = Certificate::new();
    fs::write(path, made.pem).expect("written");
    made.server
}
