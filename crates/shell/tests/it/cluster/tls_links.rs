//! Nodes that show certificates to each other.

use super::secret_change::{all_are_up, asks_with};
use super::{all_vote_and_are_up, eventually, free_addresses, knows, member, put_vhost, start};
use crate::client::scratch;
use leveret_shell::cluster::credentials::Credentials;
use leveret_shell::cluster::link_tls::LinkTlsFiles;
use leveret_shell::node::{Node, NodeConfig};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Somebody who signs nodes' certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("signed").pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    /// Writes a certificate of this authority for a node that is reached as `host`.
    fn write_certificate(&self, files: &LinkTlsFiles, host: &str) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![host.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        fs::write(&files.certificate, certificate.pem()).expect("written");
        fs::write(&files.key, key.serialize_pem()).expect("written");
    }
}

/// Writes who may vouch for nodes.
fn trust(files: &LinkTlsFiles, authorities: &[&Authority]) {
    let pem: Vec<&str> = authorities.iter().map(|a| a.pem.as_str()).collect();
    fs::write(&files.authorities, pem.concat()).expect("written");
}

/// Files in a folder, of a node with a certificate of `authority`, which trusts that one.
fn files(folder: &Path, name: &str, authority: &Authority, host: &str) -> LinkTlsFiles {
    let path = |what: &str| -> PathBuf { folder.join(format!("{name}-{what}.pem")) };
    let files = LinkTlsFiles {
        certificate: path("certificate"),
        key: path("key"),
        authorities: path("authorities"),
    };
    authority.write_certificate(&files, host);
    trust(&files, &[authority]);
    files
}

/// What becomes of who asks a node with this secret and, if any, a certificate.
fn asks(node: &Node, secret: &[u8], files: Option<&LinkTlsFiles>) -> Result<(), String> {
    let tls = files.map(|files| files.load().expect("good files"));
    asks_with(node, &Credentials::new(&[secret.to_vec()], tls).own())
}

fn with_tls(mut config: NodeConfig, files: &LinkTlsFiles) -> NodeConfig {
    let cluster = config.cluster.as_mut().expect("it is to be in a cluster");
    cluster.tls = Some(files.clone());
    config
}

#[test]
fn where_nodes_have_certificates_the_secret_alone_lets_nobody_in() {
    let scratch = scratch("cluster-tls");
    let authority = Authority::new();
    let [own] = free_addresses::<1>();
    let of_node = files(scratch.path(), "node", &authority, "127.0.0.1");
    let config = with_tls(member(scratch.path(), own, &[], b"secret"), &of_node);
    let node = start(config);
    let member = files(scratch.path(), "member", &authority, "127.0.0.1");
    assert_eq!(asks(&node, b"secret", Some(&member)), Ok(()));

    let no_certificate = asks(&node, b"secret", None).expect_err("no certificate");
    assert!(no_certificate.contains("cluster.tls"), "{no_certificate}");
    // It trusts this node, which does not trust it.
    let stranger = files(scratch.path(), "stranger", &Authority::new(), "127.0.0.1");
    trust(&stranger, &[&authority]);
    let refused = asks(&node, b"secret", Some(&stranger)).expect_err("a stranger");
    assert!(refused.contains("TLS between the nodes"), "{refused}");
    // A certificate is not enough either.
    let refused = asks(&node, b"guess", Some(&member)).expect_err("another secret");
    assert!(refused.contains("cluster.secret"), "{refused}");

    // A node is the one that its certificate names, for who dials it.
    authority.write_certificate(&of_node, "burrow");
    node.reload_cluster().expect("good files");
    let refused = asks(&node, b"secret", Some(&member)).expect_err("another name");
    assert!(refused.contains("TLS between the nodes"), "{refused}");
    // Files that are no good leave those before in use.
    authority.write_certificate(&of_node, "127.0.0.1");
    node.reload_cluster().expect("good files");
    fs::write(&of_node.key, "no key").expect("written");
    let error = node.reload_cluster().expect_err("no key").to_string();
    assert!(error.contains("private key"), "{error}");
    assert_eq!(asks(&node, b"secret", Some(&member)), Ok(()));
    node.shut_down();

    // One that wants no certificates is not talked to without.
    let plain = start(super::member(scratch.path(), own, &[], b"secret"));
    let refused = asks(&plain, b"secret", Some(&member)).expect_err("no TLS there");
    assert!(refused.contains("TLS between the nodes"), "{refused}");
    plain.shut_down();
}

/// Three steps as for the secret: trust both, show the new ones, trust the new one alone.
#[test]
fn the_authority_of_a_cluster_is_changed_while_it_serves() {
    let scratch = scratch("cluster-tls-change");
    let (old, new) = (Authority::new(), Authority::new());
    let addresses = free_addresses::<3>();
    let of_nodes = addresses.map(|own| {
        let name = own.port().to_string();
        files(scratch.path(), &name, &old, "127.0.0.1")
    });
    let config = |at: usize| {
        let own: SocketAddr = addresses[at];
        let config = member(scratch.path(), own, &addresses, b"secret");
        with_tls(config, &of_nodes[at])
    };
    let mut nodes = super::start_all((0..3).map(config).collect());
    all_vote_and_are_up(&nodes);
    let steps: [&dyn Fn(&LinkTlsFiles); 3] = [
        &|files| trust(files, &[&old, &new]),
        &|files| new.write_certificate(files, "127.0.0.1"),
        &|files| trust(files, &[&new]),
    ];
    for (step, change) in steps.into_iter().enumerate() {
        for at in 0..nodes.len() {
            change(&of_nodes[at]);
            nodes[at].reload_cluster().expect("good files");
        }
        // Links are made anew with what holds now.
        nodes.remove(0).shut_down();
        nodes.insert(0, start(config(0)));
        all_are_up(&nodes);
        let name = format!("step-{step}");
        put_vhost(&nodes[step], &name);
        for node in &nodes {
            eventually("all know it", || knows(node, &name));
        }
    }
    let former = files(scratch.path(), "former", &old, "127.0.0.1");
    trust(&former, &[&new]);
    for node in &nodes {
        assert!(asks(node, b"secret", Some(&former)).is_err());
    }
    nodes.into_iter().for_each(Node::shut_down);
}
