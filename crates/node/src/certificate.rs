//! The name in a client's certificate, for the mechanism `EXTERNAL`.

use std::net::IpAddr;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Which part of a certificate is the user's name (`ssl_cert_login_from`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameFrom {
    /// The whole subject, as RFC 4514 writes it: `CN=user,O=company`.
    #[default]
    DistinguishedName,
    /// The subject's common name.
    CommonName,
    /// The alternative name of this type at this position, counted from 0.
    AlternativeName(AlternativeName, usize),
}

/// A type of alternative name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are X.509's.
pub enum AlternativeName {
    Dns,
    Ip,
    Email,
    Uri,
}

/// The name in a certificate that the TLS library has verified; nothing if it has none of that
/// kind.
#[must_use]
pub fn user_name(der: &[u8], from: NameFrom) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    match from {
        NameFrom::DistinguishedName => {
            // RFC 4514 writes the last element first, which is what RabbitMQ's users have in their
            // databases.
            let mut elements: Vec<String> = certificate
                .subject()
                .iter_attributes()
                .filter_map(|attribute| {
                    let name = x509_parser::objects::oid2abbrev(
                        attribute.attr_type(),
                        x509_parser::objects::oid_registry(),
                    );
                    Some(format!("{}={}", name.ok()?, attribute.as_str().ok()?))
                })
                .collect();
            elements.reverse();
            (!elements.is_empty()).then(|| elements.join(","))
        }
        NameFrom::CommonName => {
            let name = certificate.subject().iter_common_name().next()?;
            name.as_str().ok().map(str::to_owned)
        }
        NameFrom::AlternativeName(kind, position) => {
            let names = certificate.subject_alternative_name().ok()??;
            names
                .value
                .general_names
                .iter()
                .filter_map(|name| alternative_name(name, kind))
                .nth(position)
        }
    }
}

fn alternative_name(name: &GeneralName<'_>, kind: AlternativeName) -> Option<String> {
    match (name, kind) {
        (GeneralName::DNSName(text), AlternativeName::Dns)
        | (GeneralName::RFC822Name(text), AlternativeName::Email)
        | (GeneralName::URI(text), AlternativeName::Uri) => Some((*text).to_owned()),
        (GeneralName::IPAddress(bytes), AlternativeName::Ip) => {
            let v4 = <[u8; 4]>::try_from(*bytes).ok().map(IpAddr::from);
            let v6 = <[u8; 16]>::try_from(*bytes).ok().map(IpAddr::from);
            v4.or(v6).map(|address| address.to_string())
        }
        _ => None,
    }
}
