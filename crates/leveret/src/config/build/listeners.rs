//! What is listened on, and with which certificates. Apart because the same keys come three times:
//! for AMQP, for the HTTP API and for metrics.

use super::{Reader, narrow};
use crate::config::build::Machine;
use crate::config::settled::{Listeners, Stream, Tls, TlsVersion};
use crate::config::{ConfigError, value};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The names of the keys of one family of listeners with TLS.
pub(super) struct TlsKeys {
    /// What makes such a listener.
    listener: &'static str,
    ip: &'static str,
    port: &'static str,
    authorities: &'static str,
    certificate: &'static str,
    key: &'static str,
    verify: &'static str,
    required: &'static str,
    depth: &'static str,
    versions: &'static str,
}

macro_rules! tls_keys {
    ($listener:literal, $prefix:literal) => {
        TlsKeys {
            listener: $listener,
            ip: concat!($prefix, ".ip"),
            port: concat!($prefix, ".port"),
            authorities: concat!($prefix, ".cacertfile"),
            certificate: concat!($prefix, ".certfile"),
            key: concat!($prefix, ".keyfile"),
            verify: concat!($prefix, ".verify"),
            required: concat!($prefix, ".fail_if_no_peer_cert"),
            depth: concat!($prefix, ".depth"),
            versions: concat!($prefix, ".versions"),
        }
    };
}

/// AMQP's listeners have addresses of their own: `ip` and `port` are not used.
pub(super) const AMQP_TLS: TlsKeys = tls_keys!("listeners.ssl", "ssl_options");

/// The names of the keys of something that is served by HTTP.
struct HttpKeys {
    ip: &'static str,
    port: &'static str,
    tls: TlsKeys,
}

/// The key of the address of listeners that are given none.
const DEFAULT_IP: &str = "listeners.ip";

const HTTP: HttpKeys = HttpKeys {
    ip: "management.tcp.ip",
    port: "management.tcp.port",
    tls: tls_keys!("management.ssl", "management.ssl"),
};

const METRICS: HttpKeys = HttpKeys {
    ip: "prometheus.tcp.ip",
    port: "prometheus.tcp.port",
    tls: tls_keys!("prometheus.ssl", "prometheus.ssl"),
};

impl Reader<'_> {
    pub(super) fn listeners(&self) -> Result<Listeners, ConfigError> {
        let default_ip: IpAddr = self.parsed(DEFAULT_IP, value::ip);
        let family = |prefix: &'static str, default: &str| -> Vec<SocketAddr> {
            let typed: Vec<_> = self
                .typed
                .below(prefix)
                .map(|(_, s)| s.text.as_str())
                .collect();
            let off = self.typed.get(prefix).is_some();
            let texts = match typed.is_empty() {
                false => typed.clone(),
                true if off || default.is_empty() => Vec::new(),
                true => vec![default],
            };
            let is_default = typed.is_empty();
            let address = |text| {
                let address = value::address(text);
                address.unwrap_or_else(|error| panic!("{prefix}: {text} {error}"))
            };
            let placed = |mut address: SocketAddr| {
                if is_default {
                    address.set_ip(default_ip);
                }
                address
            };
            texts.into_iter().map(address).map(placed).collect()
        };
        Ok(Listeners {
            amqp: family("listeners.tcp", self.key("listeners.tcp.$name").default),
            amqps: family("listeners.ssl", self.key("listeners.ssl.$name").default),
            stream: family(
                "stream.listeners.tcp",
                self.key("stream.listeners.tcp.$name").default,
            ),
            stream_is_default: self.typed.below("stream.listeners.tcp").next().is_none(),
            stream_tls: family(
                "stream.listeners.ssl",
                self.key("stream.listeners.ssl.$name").default,
            ),
            http: self.http_address(&HTTP),
            https: self.https_address(&HTTP)?,
            metrics: self.http_address(&METRICS),
            metrics_tls: self.https_address(&METRICS)?,
        })
    }

    /// What the stream protocol says of this node.
    pub(super) fn stream(&self, listeners: &Listeners, machine: &Machine) -> Stream {
        let all = listeners.stream.iter().chain(&listeners.stream_tls);
        let is_local = all.clone().all(|address| address.ip().is_loopback());
        let own_host = match is_local {
            true => "localhost",
            false => &machine.host_name,
        };
        let host = self.text("stream.advertised_host").unwrap_or(own_host);
        let tls_host = self.text("stream.advertised_tls_host").unwrap_or(host);
        let port = |name, listeners: &[SocketAddr], usual| match self.text(name) {
            Some(_) => narrow(self.count(name)),
            None => listeners.first().map_or(usual, SocketAddr::port),
        };
        Stream {
            advertised: (
                host.to_owned(),
                port("stream.advertised_port", &listeners.stream, 5552),
            ),
            advertised_tls: (
                tls_host.to_owned(),
                port("stream.advertised_tls_port", &listeners.stream_tls, 5551),
            ),
            frame_bytes_max: narrow(self.count("stream.frame_max")),
            heartbeat_seconds: narrow(self.count("stream.heartbeat")),
        }
    }

    /// Where HTTP is served without TLS: as in RabbitMQ nowhere where TLS alone is configured.
    fn http_address(&self, keys: &HttpKeys) -> Option<SocketAddr> {
        let HttpKeys { ip, port, tls, .. } = keys;
        let typed = |name| self.typed.get(name).is_some();
        if typed(tls.port) && !typed(ip) && !typed(port) {
            return None;
        }
        self.socket_address(ip, port)
    }

    fn https_address(&self, keys: &HttpKeys) -> Result<Option<(SocketAddr, Tls)>, ConfigError> {
        if self.text(keys.tls.port).is_none() {
            return Ok(None);
        }
        match self.socket_address(keys.tls.ip, keys.tls.port) {
            Some(address) => Ok(Some((address, self.tls(&keys.tls)?))),
            None => Ok(None),
        }
    }

    fn socket_address(&self, ip: &'static str, port: &'static str) -> Option<SocketAddr> {
        let address = match (self.text(ip).is_some(), self.typed.get(port).is_some()) {
            (true, _) => self.parsed(ip, value::ip),
            (false, true) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            (false, false) => self.parsed(DEFAULT_IP, value::ip),
        };
        self.parsed(port, value::port)
            .map(|port| SocketAddr::new(address, port))
    }

    pub(super) fn tls(&self, keys: &TlsKeys) -> Result<Tls, ConfigError> {
        let needed = |name| {
            let missing = || {
                let listener = keys.listener;
                ConfigError::whole(format!("a listener with TLS ({listener}) needs \"{name}\""))
            };
            self.text(name).map(PathBuf::from).ok_or_else(missing)
        };
        let verify = self.words(keys.verify) == "verify_peer";
        let required = self.flag(keys.required);
        if required && !verify {
            let what = format!(
                "\"{}\" needs {} = \"verify_peer\"",
                keys.required, keys.verify
            );
            return Err(self.conflict(keys.required, &what));
        }
        let mut versions: Vec<_> = self
            .typed
            .below(keys.versions)
            .map(|(_, s)| match s.text.as_str() {
                "tlsv1.2" => TlsVersion::V12,
                _ => TlsVersion::V13,
            })
            .collect();
        if versions.is_empty() {
            versions = vec![TlsVersion::V12, TlsVersion::V13];
        }
        let client_authorities = match verify {
            true => Some(needed(keys.authorities)?),
            false => None,
        };
        Ok(Tls {
            certificate: needed(keys.certificate)?,
            key: needed(keys.key)?,
            client_authorities,
            client_certificate_required: required,
            depth: narrow(self.count(keys.depth)),
            versions,
        })
    }
}
