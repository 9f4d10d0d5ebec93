//! The name in a client's certificate, for the mechanism `EXTERNAL`.

use std::fmt::Write;
use std::net::IpAddr;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate, X509Name, X509Version};
use x509_parser::x509::AttributeTypeAndValue;

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

/// Attribute types by the names that RabbitMQ has for them; any other is written as its OID.
const TYPES: [(&str, &str); 17] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "SERIALNUMBER"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "TITLE"),
    ("2.5.4.42", "GIVENNAME"),
    ("2.5.4.43", "INITIALS"),
    ("2.5.4.44", "GENERATIONQUALIFIER"),
    ("2.5.4.65", "PSEUDONYM"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "EMAILADDRESS"),
];

/// Whether a certificate is of X.509 version 1: it cannot say what it may be used for, and TLS
/// libraries refuse it.
#[must_use]
pub fn is_version_1(der: &[u8]) -> bool {
    let parsed = X509Certificate::from_der(der);
    parsed.is_ok_and(|(_, certificate)| certificate.version() == X509Version::V1)
}

/// Which certificates lie between one and the authorities that are trusted: the issuers of each
/// other that `others` hold, in their order, but no more than `most`. An issuer is found by its
/// name. Nobody has proved anything yet: each certificate is looked at once, however many come.
#[must_use]
pub fn path<'a>(der: &'a [u8], others: &[&'a [u8]], most: usize) -> Vec<&'a [u8]> {
    let mut path = Vec::new();
    let Some((_, mut issuer)) = names(der) else {
        return path;
    };
    let named = others.iter().filter_map(|der| Some((*der, names(der)?)));
    let mut left: Vec<_> = named.collect();
    while path.len() < most {
        let Some(next) = left.iter().position(|(_, (name, _))| *name == issuer) else {
            break;
        };
        let (der, (_, its_issuer)) = left.swap_remove(next);
        path.push(der);
        issuer = its_issuer;
    }
    path
}

/// The names in a certificate of whom it is for and who has signed it, as they are encoded.
fn names(der: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let [subject, issuer] = [certificate.subject(), certificate.issuer()];
    Some((subject.as_raw().to_vec(), issuer.as_raw().to_vec()))
}

/// The name in a certificate that the TLS library has verified; nothing if it has none of that
/// kind, or one that could be read in two ways.
#[must_use]
pub fn user_name(der: &[u8], from: NameFrom) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    match from {
        NameFrom::DistinguishedName => distinguished_name(certificate.subject()),
        NameFrom::CommonName => {
            let mut names = certificate.subject().iter_common_name();
            let (first, second) = (names.next()?, names.next());
            let name = first.as_str().ok().filter(|_| second.is_none());
            name.map(str::to_owned)
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

/// A whole subject, as RFC 4514 and RabbitMQ write it: the last element first. Nothing if an
/// attribute is no text: names that differ in it would be the same.
fn distinguished_name(subject: &X509Name<'_>) -> Option<String> {
    let element = |rdn: &x509_parser::x509::RelativeDistinguishedName<'_>| {
        let attributes: Option<Vec<String>> = rdn.iter().map(attribute).collect();
        attributes.map(|attributes| attributes.join("+"))
    };
    let elements: Option<Vec<String>> = subject.iter_rdn().map(element).collect();
    let mut elements = elements?;
    elements.reverse();
    (!elements.is_empty()).then(|| elements.join(","))
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> Option<String> {
    let oid = attribute.attr_type().to_id_string();
    let known = TYPES.iter().find(|(known, _)| *known == oid);
    let name = known.map_or(oid.as_str(), |(_, name)| name);
    Some(format!("{name}={}", escaped(attribute.as_str().ok()?)))
}

/// A value in which nothing looks like the end of it. As in RabbitMQ, bytes that are not printable
/// ASCII are written as their numbers.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let last = value.len().saturating_sub(1);
    for (index, byte) in value.bytes().enumerate() {
        let is_special = match byte {
            b' ' => index == 0 || index == last,
            b'#' => index == 0,
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' => true,
            _ => false,
        };
        if is_special {
            text.push('\\');
        }
        match byte {
            b' '..=b'}' => text.push(char::from(byte)),
            _ => drop(write!(text, "\\{byte:02X}")),
        }
    }
    text
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

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, Issuer, KeyPair};

    fn certificate(attributes: &[(DnType, DnValue)]) -> Vec<u8> {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in attributes {
            params.distinguished_name.push(kind.clone(), value.clone());
        }
        let key = KeyPair::generate().expect("a key");
        let made = params.self_signed(&key).expect("signed");
        made.der().to_vec()
    }

    fn named(attributes: &[(DnType, &str)]) -> Option<String> {
        let attributes: Vec<_> = attributes
            .iter()
            .map(|(kind, text)| (kind.clone(), DnValue::Utf8String((*text).to_owned())))
            .collect();
        user_name(&certificate(&attributes), NameFrom::DistinguishedName)
    }

    #[test]
    fn a_path_is_followed_in_its_order_and_no_further_than_asked() {
        let params = |name: String| {
            let mut params = CertificateParams::new(Vec::new()).expect("no names");
            params.distinguished_name.push(DnType::CommonName, name);
            params
        };
        let key = KeyPair::generate().expect("a key");
        // Each is signed by the next one.
        let chain: Vec<Vec<u8>> = (0..5)
            .map(|at| {
                let issuer = Issuer::new(params(format!("{}", at + 1)), &key);
                let made = params(format!("{at}")).signed_by(&key, &issuer);
                made.expect("signed").der().to_vec()
            })
            .collect();
        let shown: Vec<&[u8]> = [3, 1, 4, 2].map(|at| chain[at].as_slice()).into();
        for most in 0..6 {
            let path = path(&chain[0], &shown, most);
            let expected = chain[1..].iter().take(most);
            assert!(expected.eq(path.iter()), "{most}");
        }
        let stranger = certificate(&[]);
        assert!(path(&stranger, &shown, 5).is_empty());
        assert!(path(b"no certificate", &shown, 5).is_empty());
        assert!(path(&chain[0], &[b"no certificate"], 5).is_empty());
    }

    #[test]
    fn a_value_does_not_look_like_another_attribute() {
        let forged = named(&[(DnType::CommonName, "guest,O=burrow")]);
        let real = named(&[
            (DnType::OrganizationName, "burrow"),
            (DnType::CommonName, "guest"),
        ]);
        assert_eq!(real.as_deref(), Some("CN=guest,O=burrow"));
        assert_eq!(forged.as_deref(), Some("CN=guest\\,O=burrow"));
    }

    #[test]
    fn values_are_escaped_as_rabbitmq_escapes_them() {
        for (value, expected) in [
            ("plain name", "plain name"),
            (" two ends ", "\\ two ends\\ "),
            ("#1 #2", "\\#1 #2"),
            ("a+b;c<d>e\"f\\", "a\\+b\\;c\\<d\\>e\\\"f\\\\"),
            ("new\nline\0", "new\\0Aline\\00"),
            ("Müller", "M\\C3\\BCller"),
            ("~", "\\7E"),
        ] {
            assert_eq!(escaped(value), expected, "{value:?}");
        }
    }

    #[test]
    fn attributes_that_have_no_name_are_told_apart_by_their_numbers() {
        let of = |last: u64| DnType::CustomDnType(vec![1, 2, 3, last]);
        let name = named(&[(DnType::CommonName, "guest"), (of(4), "x")]);
        assert_eq!(name.as_deref(), Some("1.2.3.4=x,CN=guest"));
        let other = named(&[(DnType::CommonName, "guest"), (of(5), "x")]);
        assert_ne!(name, other);
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_no_name() {
        // No text that this reads.
        let bmp = DnValue::BmpString("x".try_into().expect("letters"));
        let unread = [
            (DnType::CommonName, DnValue::Utf8String("guest".to_owned())),
            (DnType::OrganizationName, bmp),
        ];
        let unread = certificate(&unread);
        assert_eq!(user_name(&unread, NameFrom::DistinguishedName), None);
        let one = user_name(&unread, NameFrom::CommonName);
        assert_eq!(one.as_deref(), Some("guest"));
        let text = |text: &str| DnValue::Utf8String(text.to_owned());
        let again = DnType::CustomDnType(vec![2, 5, 4, 3]);
        let two = certificate(&[(DnType::CommonName, text("guest")), (again, text("admin"))]);
        assert_eq!(user_name(&two, NameFrom::CommonName), None);
        let both = user_name(&two, NameFrom::DistinguishedName);
        assert_eq!(both.as_deref(), Some("CN=admin,CN=guest"));
    }
}
