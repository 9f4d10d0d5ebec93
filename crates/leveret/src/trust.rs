//! TLS as a client: whom the command line believes to be a node, and a node to be its collector of
//! traces.

use leveret_perf::transport::AnyCertificate;
use leveret_perf::trust::GivenCertificates;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where systems keep the authorities that they trust.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Whose word is taken for who a server is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The authorities that this system trusts, or those of the file `SSL_CERT_FILE`.
    #[default]
    System,
    /// The authorities of this file (PEM), and a server that shows one of its certificates.
    File(PathBuf),
    /// Nobody's: whoever answers is believed. What is said can be read by whoever is in between.
    Anybody,
}

impl Trust {
    /// How TLS is spoken with whom it believes.
    ///
    /// # Errors
    /// If the file of authorities cannot be read, or has none.
    pub fn client(&self) -> io::Result<Arc<ClientConfig>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let verifier: Arc<dyn ServerCertVerifier> = match self {
            Self::Anybody => Arc::new(AnyCertificate::new(provider)),
            Self::System => Arc::new(authorities(&system_file()?, provider)?),
            Self::File(path) => Arc::new(authorities(path, provider)?),
        };
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        Ok(Arc::new(builder.with_no_client_auth()))
    }
}

fn system_file() -> io::Result<PathBuf> {
    let given = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let known = SYSTEM_FILES.iter().map(PathBuf::from);
    let found = given.or_else(|| known.into_iter().find(|path| path.exists()));
    found.ok_or_else(|| {
        let text = "this system has no file of authorities: name one with --ca-file (a node: `traces.cacertfile`)";
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

fn authorities(path: &Path, provider: Arc<CryptoProvider>) -> io::Result<GivenCertificates> {
    let bad = |reason: String| {
        let text = format!("cannot read authorities from {}: {reason}", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    let mut roots = RootCertStore::empty();
    let given: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let given = given.map_err(|error| bad(error.to_string()))?;
    for certificate in &given {
        // A system's file may have some that nobody can use.
        let _ = roots.add(certificate.clone());
    }
    GivenCertificates::new(given, roots, provider)
        .map_err(|_| bad("there is none that can be used".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_perf::spec::Tls;
    use leveret_perf::transport::tls_config;
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::{ClientConnection, ServerConfig, ServerConnection};
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A certificate of this name, as `openssl req -x509` makes one: signed by itself, and an
    /// authority.
    fn of_its_own(name: &str) -> CertificateParams {
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    }

    /// A server that shows this certificate, and the certificate as PEM.
    fn server(params: &CertificateParams) -> (Arc<ServerConfig>, String) {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("signed");
        let chain = vec![certificate.der().clone()];
        (config(chain, &key), certificate.pem())
    }

    fn config(chain: Vec<CertificateDer<'static>>, key: &KeyPair) -> Arc<ServerConfig> {
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth();
        Arc::new(builder.with_single_cert(chain, key).expect("together"))
    }

    /// Whether a client of the command line believes the server to be `name`, having been given
    /// these certificates; one of the load generator agrees.
    fn is_believed(given: &[&str], server: &Arc<ServerConfig>, name: &str) -> bool {
        static FILES: AtomicU32 = AtomicU32::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let file = format!("leveret-trust-{}-{number}.pem", std::process::id());
        let path = std::env::temp_dir().join(file);
        std::fs::write(&path, given.concat()).expect("written");
        let tls = Tls {
            ca_file: Some(path.clone()),
            insecure: false,
        };
        let clients = [
            Trust::File(path.clone()).client().expect("certificates"),
            tls_config(&tls).expect("certificates"),
        ];
        std::fs::remove_file(path).expect("its own");
        let [ours, of_perf] = clients.map(|client| meet(client, server, name));
        assert_eq!(ours, of_perf);
        ours
    }

    fn meet(client: Arc<ClientConfig>, server: &Arc<ServerConfig>, name: &str) -> bool {
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let mut client = ClientConnection::new(client, name).expect("a client");
        let mut server = ServerConnection::new(Arc::clone(server)).expect("a server");
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).expect("memory");
            server.read_tls(&mut &*bytes).expect("memory");
            server.process_new_packets().expect("the client is sound");
            bytes.clear();
            server.write_tls(&mut bytes).expect("memory");
            client.read_tls(&mut &*bytes).expect("memory");
            if client.process_new_packets().is_err() {
                return false;
            }
        }
        true
    }

    #[test]
    fn a_servers_own_certificate_is_believed_and_no_other_that_looks_like_it() {
        let (server, its) = server(&of_its_own("mine.test"));
        assert!(is_believed(&[&its], &server, "mine.test"));
        assert!(!is_believed(&[&its], &server, "other.test"));
        let (another, of_another) = self::server(&of_its_own("mine.test"));
        assert!(!is_believed(&[&its], &another, "mine.test"));
        assert!(is_believed(&[&its, &of_another], &another, "mine.test"));
    }

    #[test]
    fn a_given_certificate_is_believed_within_its_time_alone() {
        let mut expired = of_its_own("mine.test");
        expired.not_before = rcgen::date_time_ymd(2001, 1, 1);
        expired.not_after = rcgen::date_time_ymd(2002, 1, 1);
        let mut early = of_its_own("mine.test");
        early.not_before = rcgen::date_time_ymd(3001, 1, 1);
        early.not_after = rcgen::date_time_ymd(3002, 1, 1);
        for params in [expired, early] {
            let (server, its) = server(&params);
            assert!(!is_believed(&[&its], &server, "mine.test"));
        }
    }

    #[test]
    fn a_given_certificate_without_other_names_has_that_of_its_subject() {
        let mut named = of_its_own("mine.test");
        named.subject_alt_names.clear();
        named
            .distinguished_name
            .push(DnType::CommonName, "Mine.test");
        let (server, its) = server(&named);
        assert!(is_believed(&[&its], &server, "mine.test"));
        assert!(!is_believed(&[&its], &server, "other.test"));
        // Where there are others, they alone count.
        let mut both = of_its_own("other.test");
        both.distinguished_name
            .push(DnType::CommonName, "mine.test");
        let (server, its) = self::server(&both);
        assert!(!is_believed(&[&its], &server, "mine.test"));
    }

    #[test]
    fn authorities_vouch_for_others_and_a_signed_certificate_is_given_alone_as_well() {
        let key = KeyPair::generate().expect("a key");
        let authority = of_its_own("authority.test");
        let of_authority = authority.self_signed(&key).expect("signed").pem();
        let issuer = Issuer::new(authority, key);
        let own = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(["mine.test".to_owned()]).expect("a name");
        let signed = params.signed_by(&own, &issuer).expect("signed");
        let server = config(vec![signed.der().clone()], &own);
        assert!(is_believed(&[&of_authority], &server, "mine.test"));
        assert!(!is_believed(&[&of_authority], &server, "other.test"));
        assert!(is_believed(&[&signed.pem()], &server, "mine.test"));
        let (_, of_another) = self::server(&of_its_own("mine.test"));
        assert!(!is_believed(&[&of_another], &server, "mine.test"));
    }
}
