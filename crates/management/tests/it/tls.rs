//! The HTTP API over TLS.

use crate::certificate::Certificate;
use crate::client::exchange;
use crate::fake::Fake;
use crate::http::WHOAMI;
use leveret_management::{App, Endpoint, ListenAddress, Node, Server, Service, Tls};
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

/// Settings with a new certificate, and what a client must trust to like it.
fn certificate() -> (Arc<rustls::ServerConfig>, rustls::RootCertStore) {
    let made = Certificate::new();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.der).expect("a certificate");
    (made.server, roots)
}

fn ask_by_tls(address: SocketAddr, roots: &rustls::RootCertStore) -> io::Result<String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let session = rustls::ClientConnection::new(Arc::new(config), name).expect("a session");
    let mut stream = rustls::StreamOwned::new(session, TcpStream::connect(address)?);
    stream.write_all(WHOAMI.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn tls_is_spoken_where_it_is_configured_and_its_certificate_replaced() {
    let (first, trusted_first) = certificate();
    let (second, trusted_second) = certificate();
    let tls = Tls::new(first);
    let app = App::new(Arc::new(Fake::default()), Some("token".to_owned()), false)
        .with_token_on_loopback();
    let endpoint = Endpoint {
        service: Service::Api,
        address: ListenAddress::Tcp(([127, 0, 0, 1], 0).into(), Some(tls.clone())),
    };
    let server = Server::start(app, &[endpoint]).expect("a port");
    let bound = server.bound()[0];
    assert!(bound.tls && server.plain_address(Service::Api).is_none());
    let answer = ask_by_tls(bound.address, &trusted_first).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("(operator)"));
    assert!(ask_by_tls(bound.address, &trusted_second).is_err());
    // A client that speaks no TLS gets nothing, and harms nobody.
    assert_eq!(exchange(bound.address, WHOAMI.as_bytes()).status, 0);
    tls.replace(second);
    assert!(ask_by_tls(bound.address, &trusted_first).is_err());
    ask_by_tls(bound.address, &trusted_second).expect("an answer");
}

/// Shows a certificate, and notes which threads look for it.
#[derive(Debug)]
struct Noting {
    certificate: Arc<dyn rustls::server::ResolvesServerCert>,
    threads: Mutex<BTreeSet<String>>,
}

impl rustls::server::ResolvesServerCert for Noting {
    fn resolve(
        &self,
        hello: rustls::server::ClientHello<'_>,
    ) -> Option<Arc<rustls::sign::CertifiedKey>> {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or_default().to_owned();
        self.threads.lock().expect("threads").insert(name);
        self.certificate.resolve(hello)
    }
}

#[test]
fn handshakes_are_not_computed_where_all_sockets_wait() {
    let (settings, trusted) = certificate();
    let mut settings = rustls::ServerConfig::clone(&settings);
    let noting = Arc::new(Noting {
        certificate: Arc::clone(&settings.cert_resolver),
        threads: Mutex::default(),
    });
    settings.cert_resolver = Arc::clone(&noting) as _;
    let fake = Arc::new(Fake::default());
    let node = Arc::clone(&fake) as Arc<dyn Node>;
    let app = App::new(node, Some("token".to_owned()), false).with_token_on_loopback();
    let tls = Tls::new(Arc::new(settings));
    let endpoint = Endpoint {
        service: Service::Api,
        address: ListenAddress::Tcp(([127, 0, 0, 1], 0).into(), Some(tls)),
    };
    let server = Server::start(app, &[endpoint]).expect("a port");
    for _ in 0..3 {
        ask_by_tls(server.bound()[0].address, &trusted).expect("an answer");
    }
    let threads = || -> Vec<String> {
        let threads = std::mem::take(&mut *noting.threads.lock().expect("threads"));
        threads.into_iter().collect()
    };
    assert_eq!(threads(), ["http-strangers"]);
    // Once somebody has logged in from there.
    fake.is_familiar.store(true, Relaxed);
    ask_by_tls(server.bound()[0].address, &trusted).expect("an answer");
    assert_eq!(threads(), ["http-handshakes"]);
}
