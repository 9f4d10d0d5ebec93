//! A key's text made a value, by its kind.

use super::keys::Kind;
use super::rotation::Schedule;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Checks that `text` is what `kind` asks for; the error says what would have been.
pub fn check(kind: Kind, text: &str) -> Result<(), String> {
    match kind {
        Kind::Bool => boolean(text).map(|_| ()),
        Kind::Count(least, most) => count(text, least, most).map(|_| ()),
        Kind::Bytes(least, most) => bytes(text, least, most).map(|_| ()),
        Kind::Fraction(most) => fraction(text, most).map(|_| ()),
        Kind::Address => address(text).map(|_| ()),
        Kind::Port => port(text).map(|_| ()),
        Kind::Ip => ip(text).map(|_| ()),
        Kind::Schedule => Schedule::parse(text).map(|_| ()),
        Kind::Path if text.is_empty() => Err("must not be empty".to_owned()),
        Kind::Secret if text.starts_with("encrypted:") => Err(
            "is an encrypted value, which RabbitMQ alone can read: name an environment variable \
             (`$(NAME)` in a rabbitmq.conf), or keep the secret in a file that the node alone may \
             read"
                .to_owned(),
        ),
        Kind::Path | Kind::Text | Kind::Secret => Ok(()),
        Kind::Choice([only]) => (text == *only)
            .then_some(())
            .ok_or_else(|| format!("must be \"{only}\"")),
        Kind::Choice(words) => words
            .contains(&text)
            .then_some(())
            .ok_or_else(|| format!("must be one of {}", words.join(", "))),
    }
}

/// A truth value, in TOML's words or rabbitmq.conf's.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" => Ok(true),
        "false" | "off" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// A whole number between `least` and `most`.
pub fn count(text: &str, least: u64, most: u64) -> Result<u64, String> {
    text.parse()
        .ok()
        .filter(|n| (least..=most).contains(n))
        .ok_or_else(|| format!("must be a whole number from {least} to {most}"))
}

/// A size with RabbitMQ's units: `k`, `KiB`, `M`, `MiB`... are powers of 1,024; `kB`, `MB`, `GB`,
/// `TB` of 1,000.
pub fn bytes(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_lowercase();
    let scale: u64 = match unit.as_str() {
        "" | "b" => 1,
        "k" | "ki" | "kib" => 1 << 10,
        "m" | "mi" | "mib" => 1 << 20,
        "g" | "gi" | "gib" => 1 << 30,
        "t" | "ti" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err("must be a size such as 500MB, 64MiB or 2GB".to_owned()),
    };
    let number: u64 = digits
        .trim_end()
        .parse()
        .map_err(|_| "must be a size such as 500MB, 64MiB or 2GB".to_owned())?;
    number
        .checked_mul(scale)
        .filter(|n| (least..=most).contains(n))
        .ok_or_else(|| format!("must be from {least} to {most} bytes"))
}

/// A fraction above 0 and up to `most`.
pub fn fraction(text: &str, most: f64) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|f: &f64| *f > 0.0 && *f <= most)
        .ok_or_else(|| format!("must be a number above 0, up to {most}"))
}

/// An address and port; a bare port stands for every IPv4 interface.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    }
    // RabbitMQ also takes an IPv6 address without brackets, the port after its last colon.
    let plain = || {
        let (ip, port) = text.rsplit_once(':')?;
        let ip = if ip == "localhost" {
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        } else {
            ip.parse().ok()?
        };
        Some(SocketAddr::new(ip, port.parse().ok()?))
    };
    text.parse().ok().or_else(plain).ok_or_else(|| {
        "must be an address and port such as 127.0.0.1:5672 or [::1]:5672, or a port".to_owned()
    })
}

/// Another machine's address: a name or an IP address, and a port.
pub fn host_and_port(text: &str) -> Result<(), String> {
    let parts = text.rsplit_once(':');
    let good = parts.is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    match good {
        true => Ok(()),
        false => Err("must be host:port".to_owned()),
    }
}

/// A collector's URL: whether TLS is spoken there, host and port, and the path of traces.
pub fn collector(text: &str) -> Result<(bool, String, String), String> {
    let (speaks_tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (None, Some(rest)) => (true, rest),
        (None, None) => return Err("must be an http:// or https:// URL".to_owned()),
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let has_port = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.ends_with(']'));
    let authority = match has_port {
        true => authority.to_owned(),
        false => format!("{authority}:4318"),
    };
    host_and_port(&authority).map_err(|_| "must be http://host:port")?;
    if rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("must be a URL without spaces".to_owned());
    }
    let path = match path.trim_end_matches('/') {
        "" => "/v1/traces".to_owned(),
        path => format!("/{path}"),
    };
    Ok((speaks_tls, authority, path))
}

/// A port, or none for `none`.
pub fn port(text: &str) -> Result<Option<u16>, String> {
    if text == "none" {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|_| "must be a port from 0 to 65535, or \"none\"".to_owned())
}

/// An IP address.
pub fn ip(text: &str) -> Result<IpAddr, String> {
    text.parse()
        .map_err(|_| "must be an IP address such as 127.0.0.1 or ::".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_carry_rabbitmqs_units() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1024", Some(1024)),
            ("64k", Some(65_536)),
            ("64KiB", Some(65_536)),
            ("64kB", Some(64_000)),
            ("2GB", Some(2_000_000_000)),
            ("2 GiB", Some(2 << 30)),
            ("1TB", Some(1_000_000_000_000)),
            ("50MB", Some(50_000_000)),
            ("1Ti", Some(1 << 40)),
            ("99999999999999TB", None),
            ("-1", None),
            ("1.5GB", None),
            ("MB", None),
            ("5XB", None),
            ("", None),
            ("5é", None),
        ] {
            assert_eq!(bytes(text, 0, u64::MAX).ok(), expected, "{text}");
        }
        assert!(bytes("10", 10, 20).is_ok());
        assert!(bytes("9", 10, 20).is_err());
        assert!(bytes("20", 10, 20).is_ok());
        assert!(bytes("21", 10, 20).is_err());
    }

    #[test]
    fn addresses_come_in_every_form_that_rabbitmq_takes() {
        for (text, expected) in [
            ("5672", Some("0.0.0.0:5672")),
            ("127.0.0.1:5672", Some("127.0.0.1:5672")),
            ("localhost:5672", Some("127.0.0.1:5672")),
            ("[::1]:5672", Some("[::1]:5672")),
            ("::1:5672", Some("[::1]:5672")),
            (":::5672", Some("[::]:5672")),
            ("example.org:5672", None),
            ("127.0.0.1", None),
            ("127.0.0.1:65536", None),
        ] {
            let got = address(text).ok().map(|a| a.to_string());
            assert_eq!(got.as_deref(), expected, "{text}");
        }
    }
}
