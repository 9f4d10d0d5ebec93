//! Whom a client of TLS believes to be a server.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, VerifierBuilderError};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;
use std::time::Duration;
use x509_parser::certificate::Validity;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Believes a server whose certificate one of the authorities has signed, and one that shows a
/// certificate which was given itself: nobody has to vouch for that. `openssl req -x509` makes
/// self-signed certificates that call themselves authorities (`CA:TRUE`), which rustls takes for
/// no server's, and other clients do. Name and time are checked of both.
#[derive(Debug)]
pub struct GivenCertificates {
    given: Vec<CertificateDer<'static>>,
    authorities: Arc<WebPkiServerVerifier>,
}

impl GivenCertificates {
    /// Believes in `given`, byte by byte, and in whom `authorities` vouch for.
    ///
    /// # Errors
    /// If there is no authority.
    pub fn new(
        given: Vec<CertificateDer<'static>>,
        authorities: RootCertStore,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        let authorities = Arc::new(authorities);
        Ok(Self {
            given,
            authorities: WebPkiServerVerifier::builder_with_provider(authorities, provider)
                .build()?,
        })
    }
}

impl ServerCertVerifier for GivenCertificates {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.given.iter().any(|given| **given == **end_entity) {
            return self.authorities.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
        }
        let (_, certificate) = X509Certificate::from_der(end_entity)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        check_time(certificate.validity(), now)?;
        let parsed = ParsedCertificate::try_from(end_entity)?;
        match verify_server_name(&parsed, server_name) {
            Err(error) if !is_commonly_called(&certificate, server_name) => Err(error),
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

fn check_time(validity: &Validity, now: UnixTime) -> Result<(), Error> {
    // What is before 1970 is long ago.
    let moment = |seconds: i64| {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds.try_into().unwrap_or(0)))
    };
    let not_before = moment(validity.not_before.timestamp());
    let not_after = moment(validity.not_after.timestamp());
    let error = if now < not_before {
        CertificateError::NotValidYetContext {
            time: now,
            not_before,
        }
    } else if now > not_after {
        CertificateError::ExpiredContext {
            time: now,
            not_after,
        }
    } else {
        return Ok(());
    };
    Err(Error::InvalidCertificate(error))
}

/// Whether the certificate names nothing but its subject, which has this one name. OpenSSL makes
/// such certificates where it is told no more, and its clients take them by that.
fn is_commonly_called(certificate: &X509Certificate<'_>, name: &ServerName<'_>) -> bool {
    let ServerName::DnsName(name) = name else {
        return false;
    };
    if !matches!(certificate.subject_alternative_name(), Ok(None)) {
        return false;
    }
    let mut common = certificate.subject().iter_common_name();
    match (common.next(), common.next()) {
        (Some(only), None) => only
            .as_str()
            .is_ok_and(|only| only.eq_ignore_ascii_case(name.as_ref())),
        _ => false,
    }
}
