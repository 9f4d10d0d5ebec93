//! TLS on real sockets: who is let in, by which certificate, and what a reload changes.

use crate::client::{Client, address, connect, scratch, start};
use leveret_shell::tls::TlsFiles;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

/// Somebody who signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    der: CertificateDer<'static>,
    pem: String,
    /// Its certificate and those above it that others have signed.
    chain: Vec<CertificateDer<'static>>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("signed");
        Self {
            der: certificate.der().clone(),
            pem: certificate.pem(),
            chain: Vec::new(),
            issuer: Issuer::new(params, key),
        }
    }

    /// One that this one vouches for.
    fn subordinate(&self, name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        let mut chain = vec![certificate.der().clone()];
        chain.extend_from_slice(&self.chain);
        Self {
            der: certificate.der().clone(),
            pem: certificate.pem(),
            chain,
            issuer: Issuer::new(params, key),
        }
    }

    fn sign(&self, common_name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let names = vec!["localhost".to_owned()];
        let mut params = CertificateParams::new(names).expect("a name");
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        (certificate, key)
    }

    /// Writes the files of a node whose certificate this authority signs.
    fn write_files(&self, folder: &Path, require_peer_certificate: bool) -> TlsFiles {
        let (certificate, key) = self.sign("node");
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).expect("written");
            path
        };
        TlsFiles {
            certificate: write("certificate.pem", &certificate.pem()),
            key: write("key.pem", &key.serialize_pem()),
            authorities: Some(write("authorities.pem", &self.pem)),
            verify_peer: true,
            require_peer_certificate,
            depth: 10,
            versions: Vec::new(),
        }
    }
}

type TlsClient<S> = Client<StreamOwned<ClientConnection, S>>;

/// A socket that sends byte by byte.
struct Dribble(TcpStream);

impl Read for Dribble {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Dribble {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(&bytes[..bytes.len().min(1)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Logs in over TLS: trusting `authority`, and showing a certificate of this name that `signer`
/// signed.
fn log_in(
    at: SocketAddr,
    authority: &Authority,
    shown: Option<(&Authority, &str)>,
) -> io::Result<TlsClient<TcpStream>> {
    log_in_over(connect(at), authority, shown)
}

/// The same over a connection.
fn log_in_over<S: Read + Write>(
    socket: S,
    authority: &Authority,
    shown: Option<(&Authority, &str)>,
) -> io::Result<TlsClient<S>> {
    let versions = rustls::DEFAULT_VERSIONS;
    let stream = session(socket, client_config(authority, shown, versions));
    match shown {
        Some(_) => Client::log_in(stream, "EXTERNAL", b""),
        None => Client::log_in(stream, "PLAIN", b"\0guest\0guest"),
    }
}

fn session<S: Read + Write>(
    socket: S,
    config: Arc<ClientConfig>,
) -> StreamOwned<ClientConnection, S> {
    let name = "localhost".try_into().expect("a name");
    let session = ClientConnection::new(config, name).expect("a session");
    StreamOwned::new(session, socket)
}

/// What a client trusts, shows and speaks.
fn client_config(
    authority: &Authority,
    shown: Option<(&Authority, &str)>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der.clone()).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(versions).expect("versions");
    let builder = builder.with_root_certificates(roots);
    Arc::new(match shown {
        None => builder.with_no_client_auth(),
        Some((signer, name)) => {
            let (certificate, key) = signer.sign(name);
            let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
            let mut chain = vec![certificate.der().clone()];
            chain.extend_from_slice(&signer.chain);
            // Who shows the authority's own certificate as well adds nothing to the path.
            chain.push(authority.der.clone());
            builder.with_client_auth_cert(chain, key).expect("a pair")
        }
    })
}

#[test]
fn a_certificate_is_a_login_if_the_right_authority_signed_it() {
    let scratch = scratch("tls");
    let (authority, stranger) = (Authority::new(), Authority::new());
    let node = start(
        scratch.path(),
        Some(authority.write_files(scratch.path(), true)),
    );
    let at = address(&node, true);
    log_in(at, &authority, Some((&authority, "guest")))
        .expect("let in")
        .close();
    assert!(log_in(at, &authority, None).is_err(), "no certificate");
    assert!(
        log_in(at, &authority, Some((&stranger, "guest"))).is_err(),
        "signed by a stranger"
    );
    let nobody = log_in(at, &authority, Some((&authority, "nobody")));
    assert!(nobody.is_err(), "a user that is not");
    assert!(
        log_in(at, &stranger, Some((&authority, "guest"))).is_err(),
        "a node not trusted"
    );
    node.shut_down();
}

#[test]
fn who_must_show_a_certificate_shows_it_at_each_connection() {
    let scratch = scratch("tls-again");
    let authority = Authority::new();
    let node = start(
        scratch.path(),
        Some(authority.write_files(scratch.path(), true)),
    );
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = client_config(&authority, Some((&authority, "guest")), &[version]);
        for _ in 0..2 {
            let mut stream = session(connect(address(&node, true)), Arc::clone(&config));
            stream
                .conn
                .complete_io(&mut stream.sock)
                .expect("a session");
            let kind = stream.conn.handshake_kind();
            assert_eq!(kind, Some(HandshakeKind::Full), "{version:?}");
            Client::log_in(stream, "EXTERNAL", b"")
                .expect("let in")
                .close();
        }
    }
    node.shut_down();
}

#[test]
fn a_handshake_may_come_byte_by_byte_and_many_may_come_at_once() {
    let scratch = scratch("tls-steps");
    let authority = Authority::new();
    let node = start(
        scratch.path(),
        Some(authority.write_files(scratch.path(), false)),
    );
    let at = address(&node, true);
    let slow = Dribble(connect(at));
    slow.0.set_nodelay(true).expect("a socket");
    let slow = log_in_over(slow, &authority, None).expect("let in");
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for shown in [None, Some((&authority, "guest"))] {
                    log_in(at, &authority, shown).expect("let in").close();
                }
            });
        }
    });
    // Those who have gone before their turn hold up nobody.
    for _ in 0..50 {
        let mut gone = connect(at);
        gone.write_all(&[0x16, 3, 1, 0, 4]).expect("sent");
    }
    log_in(at, &authority, None).expect("let in").close();
    slow.close();
    node.shut_down();
}

#[test]
fn as_many_authorities_as_may_lie_between_are_taken_and_one_more_is_not() {
    let authority = Authority::new();
    let first = authority.subordinate("first");
    let second = first.subordinate("second");
    for (depth, taken) in [(0, 1), (1, 2), (2, 3)] {
        let scratch = scratch(&format!("tls-depth-{depth}"));
        let files = TlsFiles {
            depth,
            ..authority.write_files(scratch.path(), true)
        };
        let node = start(scratch.path(), Some(files));
        let at = address(&node, true);
        for (number, signer) in [&authority, &first, &second].into_iter().enumerate() {
            let shown = log_in(at, &authority, Some((signer, "guest")));
            assert_eq!(shown.is_ok(), number < taken, "{number} of {depth}");
        }
        node.shut_down();
    }
}

#[test]
fn where_certificates_are_not_verified_they_are_no_logins() {
    let scratch = scratch("tls-unverified");
    let (authority, stranger) = (Authority::new(), Authority::new());
    let files = TlsFiles {
        verify_peer: false,
        ..authority.write_files(scratch.path(), false)
    };
    let node = start(scratch.path(), Some(files));
    let at = address(&node, true);
    for signer in [&stranger, &authority] {
        let shown = log_in(at, &authority, Some((signer, "guest")));
        assert!(shown.is_err(), "a name that nobody has proven");
    }
    let by_password = log_in(at, &authority, None);
    by_password.expect("let in by password").close();
    node.shut_down();
}

#[test]
fn certificates_are_read_again_and_stay_when_the_new_ones_are_bad() {
    let scratch = scratch("reload");
    let (old, new) = (Authority::new(), Authority::new());
    let node = start(scratch.path(), Some(old.write_files(scratch.path(), false)));
    let at = address(&node, true);
    let before = log_in(at, &old, None).expect("let in without a certificate");
    new.write_files(scratch.path(), false);
    assert!(log_in(at, &new, None).is_err(), "not before the reload");
    node.reload_certificates().expect("loaded");
    log_in(at, &new, None).expect("let in").close();
    assert!(log_in(at, &old, None).is_err(), "the old one is gone");
    fs::write(scratch.path().join("key.pem"), "no key").expect("written");
    let error = node
        .reload_certificates()
        .expect_err("no key in it")
        .to_string();
    assert!(
        error.starts_with("cannot read a private key from "),
        "{error}"
    );
    log_in(at, &new, None)
        .expect("the last good ones stay")
        .close();
    // Who was connected has noticed nothing.
    before.close();
    node.shut_down();
}
