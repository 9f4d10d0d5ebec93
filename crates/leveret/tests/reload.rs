//! What a running node takes anew on SIGHUP: the real binary, real signals.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_leveret");

/// A folder of the test's own, gone at its end.
struct Folder(PathBuf);

impl Folder {
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running node; it is killed with the test.
struct Node {
    process: Child,
    data: PathBuf,
}

impl Node {
    fn start(command: &mut Command, data: &Path) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let ready = lines.any(|line| line.is_ok_and(|line| line.contains("ready")));
        assert!(ready, "it ended before it was ready");
        Self {
            process,
            data: data.to_owned(),
        }
    }

    fn told(&self, words: &[&str]) -> String {
        let mut command = Command::new(BINARY);
        command.env_clear().args(["ctl", "--data-dir"]);
        let output = command.arg(&self.data).args(words).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// The port of AMQP over TLS.
    fn port(&self) -> u16 {
        let listeners = self.told(&["-q", "listeners"]);
        let mut lines = listeners.lines();
        let line = lines.find(|line| line.ends_with(", protocol: amqp/ssl"));
        let port = line.and_then(|line| line.split("port: ").nth(1)?.split(',').next());
        port.and_then(|port| port.parse().ok()).expect("a port")
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Sends SIGTERM; whether it ended well.
    fn terminate(mut self) -> bool {
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
fn free_addresses(count: usize) -> Vec<String> {
    // Below the ports that the kernel gives to clients, which may take them before the nodes do.
    let first = RandomState::new().hash_one(()) as usize % 6_000;
    let ports = (26_000_u16..32_768).skip(first);
    let free = ports.filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    // Held together, so that no two are the same.
    let sockets: Vec<TcpListener> = free.take(count).collect();
    let address = |socket: &TcpListener| socket.local_addr().expect("bound").to_string();
    sockets.iter().map(address).collect()
}

/// Writes a new key and its certificate for `localhost`; the certificate.
fn write_certificate(folder: &Folder) -> rustls::pki_types::CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    folder.write("key.pem", &made.signing_key.serialize_pem());
    folder.write("certificate.pem", &made.cert.pem());
    made.cert.der().clone()
}

/// Whether the node shows this certificate to clients.
fn shows(port: u16, certificate: &rustls::pki_types::CertificateDer<'static>) -> bool {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).expect("a certificate");
    let provider = rustls::crypto::ring::default_provider();
    let config = rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let session = rustls::ClientConnection::new(config.into(), name).expect("a session");
    let socket = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let patience = Some(Duration::from_secs(30));
    socket.set_read_timeout(patience).expect("a socket");
    let mut stream = rustls::StreamOwned::new(session, socket);
    stream.write_all(b"AMQP\0\0\x09\x01").is_ok() && stream.read_exact(&mut [0; 7]).is_ok()
}

#[test]
fn on_sighup_a_node_takes_new_certificates_and_secrets() {
    const OLD: &str = "an old secret of this cluster\n";
    const NEW: &str = "a new secret of this cluster\n";
    let name = format!("leveret-reload-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(name));
    fs::create_dir_all(&folder.0).expect("a folder");
    let before = write_certificate(&folder);
    let addresses = free_addresses(2);
    let join = addresses.join(",");
    let data = |name: &str| folder.0.join(name);
    let command = |name: &str, address: &str| {
        let secret = folder.0.join(format!("{name}-secret"));
        let place = folder.0.display();
        let config = format!(
            "listeners.ssl.1 = 127.0.0.1:0\nssl_options.certfile = {place}/certificate.pem\n\
             ssl_options.keyfile = {place}/key.pem\ncluster.secret_file = {}\n",
            secret.display()
        );
        let config = folder.write(&format!("{name}.conf"), &config);
        let mut command = Command::new(BINARY);
        command
            .env_clear()
            .args(["serve", "--data-dir"])
            .arg(data(name));
        command.args(["--amqp", "127.0.0.1:0", "--metrics", "none"]);
        command.args(["--http", "none", "--cluster", address, "--join", &join]);
        command.arg("--config").arg(config);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    };
    let write_secrets = |name: &str, text: &str| {
        let path = folder.write(&format!("{name}-secret"), text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("its user's alone");
    };
    write_secrets("a", OLD);
    write_secrets("b", OLD);
    let (a, b) = thread::scope(|scope| {
        let a = scope.spawn(|| Node::start(&mut command("a", &addresses[0]), &data("a")));
        let b = scope.spawn(|| Node::start(&mut command("b", &addresses[1]), &data("b")));
        (a.join().expect("a starts"), b.join().expect("b starts"))
    });
    a.told(&["await_online_nodes", "2"]);
    let port = a.port();
    assert!(shows(port, &before));
    // The node takes another secret beside its own, and another certificate, while it runs...
    write_secrets("a", &format!("{NEW}{OLD}"));
    let after = write_certificate(&folder);
    a.signal("-HUP");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !shows(port, &after) {
        assert!(Instant::now() < deadline, "it shows the old certificate");
    }
    assert!(!shows(port, &before));
    // ... so that another comes back which knows the new one alone.
    assert!(b.terminate());
    write_secrets("b", NEW);
    let b = Node::start(&mut command("b", &addresses[1]), &data("b"));
    b.told(&["await_online_nodes", "2"]);
    assert!(a.terminate());
}
