//! What a running node takes anew on SIGHUP: the real binary, real signals.

use crate::common::{Folder, Node, free_addresses, serve};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

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
    let folder = Folder::new("reload");
    let before = write_certificate(&folder);
    let addresses = free_addresses(2);
    let join = addresses.join(",");
    let data = |name: &str| folder.path().join(name);
    let command = |name: &str, address: &str| {
        let secret = folder.path().join(format!("{name}-secret"));
        let place = folder.path().display();
        let config = format!(
            "listeners.ssl.1 = 127.0.0.1:0\nssl_options.certfile = {place}/certificate.pem\n\
             ssl_options.keyfile = {place}/key.pem\ncluster.secret_file = {}\n",
            secret.display()
        );
        let config = folder.write(&format!("{name}.conf"), &config);
        let mut command = serve(&data(name));
        command.args(["--http", "none", "--cluster", address, "--join", &join]);
        command.arg("--config").arg(config);
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
    let port = a.port("amqp/ssl");
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
