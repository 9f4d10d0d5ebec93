//! `amqp://user:password@host:port/vhost`, `rabbitmq-stream://…`: where a broker is, who asks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A URI that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{uri}` is no AMQP URI ({what}): amqp://user:password@host:port/vhost, amqps:// for TLS, rabbitmq-stream:// and rabbitmq-stream+tls:// for the stream protocol"
)]
pub struct UriError {
    /// The text, without its password.
    pub uri: String,
    /// What is wrong with it.
    pub what: &'static str,
}

/// What is spoken with a broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// AMQP 0-9-1.
    #[default]
    Amqp,
    /// RabbitMQ's stream protocol.
    Stream,
}

impl Protocol {
    /// Its port.
    const fn port(self, tls: bool) -> u16 {
        match (self, tls) {
            (Self::Amqp, false) => 5672,
            (Self::Amqp, true) => 5671,
            (Self::Stream, false) => 5552,
            (Self::Stream, true) => 5551,
        }
    }

    const fn scheme(self, tls: bool) -> &'static str {
        match (self, tls) {
            (Self::Amqp, false) => "amqp",
            (Self::Amqp, true) => "amqps",
            (Self::Stream, false) => "rabbitmq-stream",
            (Self::Stream, true) => "rabbitmq-stream+tls",
        }
    }
}

/// Where a broker is and who asks.
#[derive(Clone, PartialEq, Eq)]
pub struct Uri {
    /// Whether TLS comes first.
    pub tls: bool,
    /// What is spoken there.
    pub protocol: Protocol,
    /// Name or address, without the brackets of IPv6.
    pub host: String,
    /// Port; the protocol's own where none is given.
    pub port: u16,
    /// User; `guest` where none is given.
    pub user: String,
    /// Password; `guest` where none is given.
    pub password: String,
    /// Virtual host; `/` where none is given.
    pub virtual_host: String,
}

impl Uri {
    /// Reads a URI.
    ///
    /// # Errors
    /// [`UriError`] that says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, UriError> {
        let wrong = |what| UriError {
            uri: without_passwords(text),
            what,
        };
        let (scheme, rest) = text.split_once("://").ok_or(wrong("no scheme"))?;
        let (protocol, tls) = match scheme {
            "amqp" => (Protocol::Amqp, false),
            "amqps" => (Protocol::Amqp, true),
            "rabbitmq-stream" => (Protocol::Stream, false),
            "rabbitmq-stream+tls" => (Protocol::Stream, true),
            _ => return Err(wrong("another scheme")),
        };
        let rest = rest.split('?').next().unwrap_or_default();
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, Some(path)),
            None => (rest, None),
        };
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, authority),
        };
        let (user, password) = match login.map(|l| l.split_once(':').unwrap_or((l, ""))) {
            Some((user, password)) => (unescape(user), unescape(password)),
            None => (Some("guest".to_owned()), Some("guest".to_owned())),
        };
        let (host, port) = split_port(place).ok_or(wrong("a port that is no number"))?;
        // As in RabbitMQ's clients: no path, or an empty one, is the default virtual host.
        let virtual_host = match path {
            None | Some("") => Some("/".to_owned()),
            Some(path) => unescape(path),
        };
        let escape = "a % without two hexadecimal digits";
        Ok(Self {
            tls,
            protocol,
            host: if host.is_empty() { "127.0.0.1" } else { host }.to_owned(),
            port: port.unwrap_or(protocol.port(tls)),
            user: user.ok_or(wrong(escape))?,
            password: password.ok_or(wrong(escape))?,
            virtual_host: virtual_host.ok_or(wrong(escape))?,
        })
    }

    /// Host and port as a socket address is written.
    #[must_use]
    pub fn place(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// A text with URIs in it, each with `***` for its password. What has no scheme is taken for a URI
/// where it is one but for that.
#[must_use]
pub fn without_passwords(text: &str) -> String {
    let mut pieces = text.split("://");
    let first = pieces.next().unwrap_or_default();
    let rest: Vec<String> = pieces.map(mask).collect();
    if rest.is_empty() {
        return mask(first);
    }
    let first = [first.to_owned()];
    first
        .into_iter()
        .chain(rest)
        .collect::<Vec<_>>()
        .join("://")
}

/// What follows a scheme, its password masked. One that has a slash, which should have been
/// escaped, is a password all the same.
fn mask(rest: &str) -> String {
    let authority = rest.find('/').unwrap_or(rest.len());
    let at = rest[..authority].rfind('@').or_else(|| rest.rfind('@'));
    let login = at.and_then(|at| Some((rest[..at].find(':')?, at)));
    match login {
        Some((colon, at)) => format!("{}:***{}", &rest[..colon], &rest[at..]),
        None => rest.to_owned(),
    }
}

/// Host and port; none if what should be a port is no number.
fn split_port(place: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = place.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        return match port.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok()?))),
            None => Some((host, None)),
        };
    }
    match place.split_once(':') {
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
        None => Some((place, None)),
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&octet, after)) = rest.split_first() {
        if octet != b'%' {
            bytes.push(octet);
            rest = after;
            continue;
        }
        let (digits, after) = after.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

impl fmt::Display for Uri {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.protocol.scheme(self.tls);
        write!(f, "{scheme}://{}", self.place())?;
        if self.virtual_host != "/" {
            write!(f, "/{}", self.virtual_host)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_read_as_clients_read_them() {
        let cases = [
            ("amqp://", "amqp://127.0.0.1:5672", "guest guest /"),
            ("amqp://box", "amqp://box:5672", "guest guest /"),
            ("amqps://box/", "amqps://box:5671", "guest guest /"),
            ("amqp://a:b%40@box:7/v%2fw", "amqp://box:7/v/w", "a b@ v/w"),
            ("amqp://a@[::1]:7/%2f?x=1", "amqp://[::1]:7", "a  /"),
            (
                "rabbitmq-stream://a:b@box/v",
                "rabbitmq-stream://box:5552/v",
                "a b v",
            ),
            (
                "rabbitmq-stream+tls://box",
                "rabbitmq-stream+tls://box:5551",
                "guest guest /",
            ),
        ];
        for (text, shown, login) in cases {
            let uri = Uri::parse(text).unwrap();
            assert_eq!(uri.to_string(), shown, "{text}");
            let found = format!("{} {} {}", uri.user, uri.password, uri.virtual_host);
            assert_eq!(found, login, "{text}");
        }
    }

    #[test]
    fn passwords_are_masked_wherever_uris_stand() {
        for (text, shown) in [
            ("amqp://ann:secret@box:7/v", "amqp://ann:***@box:7/v"),
            ("amqp://ann:se/cr@et@box/", "amqp://ann:***@box/"),
            (
                "amqp://a:s1@one,amqp://b:s2@two/",
                "amqp://a:***@one,amqp://b:***@two/",
            ),
            ("--uri=amqps://ann:secret@box", "--uri=amqps://ann:***@box"),
            ("ann:secret@box", "ann:***@box"),
            ("amqp://ann@box:7/v", "amqp://ann@box:7/v"),
            ("amqp://box:7/a@b", "amqp://box:***@b"),
            ("run --rate 5", "run --rate 5"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
        let error = Uri::parse("http://ann:secret@box").unwrap_err().to_string();
        assert!(
            !error.contains("secret") && error.contains("ann:***@box"),
            "{error}"
        );
    }

    #[test]
    fn what_is_no_uri_is_refused() {
        for text in [
            "box:5672",
            "http://box",
            "amqp://box:x",
            "amqp://%zz@box",
            "amqp://[::1",
        ] {
            assert!(Uri::parse(text).is_err(), "{text}");
        }
    }
}
