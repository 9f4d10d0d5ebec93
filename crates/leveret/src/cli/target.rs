//! Which node is meant, and by what right.

use super::http::{Client, Credentials};
use super::node_file::{self, CONTROL_SOCKET, NodeFile};
use super::password::PasswordSource;
use crate::config::machine;
use crate::http::Answer;
use crate::trust::Trust;
use leveret_management::definitions_pieces::definitions_pieces;
use serde_json::Value;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How the user names the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The node's name, where the user says it: no other is asked for anything.
    pub node: Option<String>,
    /// The node's data folder, where this is the same machine.
    pub data_dir: PathBuf,
    /// The HTTP API, `http://host:port` or `https://host:port`, where it is not.
    pub url: Option<String>,
    /// User of the broker; only with `url`.
    pub user: String,
    /// Where the user's password comes from.
    pub password: PasswordSource,
    /// Whom to believe to be the node, with `https`.
    pub trust: Trust,
    /// How long one request may take.
    pub timeout: Duration,
}

/// A node that can be asked.
#[derive(Clone, Debug)]
pub struct Target {
    client: Client,
    /// The node's name, where its data folder tells it.
    name: Option<String>,
}

/// Why a request got no answer that is of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The node cannot be reached; what to do.
    Unreachable(String),
    /// The node that was found is not the one that is meant.
    OtherNode(String),
    /// The node refuses: HTTP status and reason.
    Refused(u16, String),
}

impl CallError {
    /// The same with more behind it.
    fn with(self, more: &str) -> Self {
        match self {
            Self::Unreachable(text) => Self::Unreachable(text + more),
            Self::OtherNode(text) => Self::OtherNode(text + more),
            Self::Refused(status, text) => Self::Refused(status, text + more),
        }
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(text) | Self::OtherNode(text) | Self::Refused(_, text) => {
                f.write_str(text)
            }
        }
    }
}

impl Target {
    /// Finds the node, and asks it who it is if one is meant by name and nothing else tells.
    pub fn find(address: &Address) -> Result<Self, CallError> {
        let target = Self::found(address)?;
        if let Some(meant) = &address.node {
            let name = target.name()?;
            let here = machine::host_name();
            if !is_meant(meant, &name, &here, target.host().unwrap_or(&here)) {
                return Err(CallError::OtherNode(format!(
                    "node '{meant}' is not the one at {}, whose name is '{name}': nothing was \
                     asked of it; ask for '{name}', or give the folder of '{meant}' with \
                     --data-dir or its API with --url (a node's name is its key `node_name`, or \
                     LEVERET_NODE_NAME or RABBITMQ_NODENAME when it starts)",
                    target.client.authority
                )));
            }
        }
        Ok(target)
    }

    fn found(address: &Address) -> Result<Self, CallError> {
        if let Some(url) = &address.url {
            let (authority, tls) = split_url(url, &address.trust)?;
            let password = address.password.read(&address.user);
            let password = password.map_err(CallError::Unreachable)?;
            return Ok(Self {
                client: Client {
                    authority,
                    socket: None,
                    tls,
                    credentials: Credentials::User(address.user.clone(), password),
                    timeout: address.timeout,
                },
                name: None,
            });
        }
        let root = &address.data_dir;
        let absent = |error: std::io::Error| {
            CallError::Unreachable(format!(
                "no node runs on the data folder {}: {error}; start one, or name its folder with --data-dir or its API with --url",
                root.display()
            ))
        };
        let node = NodeFile::read(root).map_err(absent)?;
        let token = node_file::read_token(root).map_err(absent)?;
        let socket = Some(root.join(CONTROL_SOCKET)).filter(|path| path.exists());
        let authority = match (&socket, node.http) {
            (_, Some(http)) => node_file::reachable(http).to_string(),
            (Some(path), None) => path.display().to_string(),
            (None, None) => {
                return Err(CallError::Unreachable(format!(
                    "node {} has neither a socket file in {} nor an HTTP API without TLS",
                    node.name,
                    root.display()
                )));
            }
        };
        Ok(Self {
            client: Client {
                authority,
                socket,
                tls: None,
                credentials: Credentials::Token(token),
                timeout: address.timeout,
            },
            name: Some(node.name),
        })
    }

    /// The node's host as the URL has it; none if that is this machine.
    fn host(&self) -> Option<&str> {
        if self.client.socket.is_some() || self.name.is_some() {
            return None;
        }
        let (host, _) = self.client.authority.rsplit_once(':')?;
        let address = host.trim_start_matches('[').trim_end_matches(']');
        let is_loopback = address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        (host != "localhost" && !is_loopback).then_some(host)
    }

    /// No node at all: for what needs none.
    #[must_use]
    pub fn nowhere() -> Self {
        Self {
            client: Client {
                authority: String::new(),
                socket: None,
                tls: None,
                credentials: Credentials::Token(String::new()),
                timeout: Duration::ZERO,
            },
            name: None,
        }
    }

    /// The node's name.
    pub fn name(&self) -> Result<String, CallError> {
        match &self.name {
            Some(name) => Ok(name.clone()),
            None => {
                let overview = self.get("/api/overview")?;
                Ok(overview["node"].as_str().unwrap_or("unknown").to_owned())
            }
        }
    }

    /// Sends a request and takes whatever answer comes.
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Answer, CallError> {
        self.client
            .call(method, path, headers, body)
            .map_err(|error| self.unreachable(&error))
    }

    /// A request that must work, with a JSON answer (null where it has none).
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, CallError> {
        good(self.ask(method, path, &[], body)?).map(|answer| answer.json())
    }

    /// A GET that must work.
    pub fn get(&self, path: &str) -> Result<Value, CallError> {
        self.call("GET", path, None)
    }

    /// A POST of a file's bytes that must work.
    pub fn upload(&self, path: &str, bytes: Vec<u8>) -> Result<Value, CallError> {
        let answer = self
            .client
            .send("POST", path, &[], bytes)
            .map_err(|error| self.unreachable(&error))?;
        good(answer).map(|answer| answer.json())
    }

    /// Imports definitions: those that are larger than one import may be in pieces, one after the
    /// other. What an import has made stays where a later one is refused.
    pub fn import(&self, definitions: Vec<u8>) -> Result<(), CallError> {
        // In the words of a node that refuses a smaller file.
        let pieces = definitions_pieces(definitions)
            .map_err(|error| CallError::Refused(400, error.to_string()))?;
        let count = pieces.len();
        for (done, piece) in pieces.into_iter().enumerate() {
            let imported = self.upload("/api/definitions", piece);
            imported.map_err(|error| match done {
                0 => error,
                done => error.with(&format!(
                    "; {done} of the {count} pieces that so large a file is imported in are in \
                     the node: import the whole file again when that is mended"
                )),
            })?;
        }
        Ok(())
    }

    fn unreachable(&self, error: &std::io::Error) -> CallError {
        let name = self.name.as_deref().unwrap_or(&self.client.authority);
        CallError::Unreachable(format!(
            "unable to connect to node '{name}' at {}: nodedown ({error}); is it running?",
            self.client.authority
        ))
    }
}

/// Host and port of a URL, and whether TLS is spoken there.
fn split_url(url: &str, trust: &Trust) -> Result<(String, Option<Trust>), CallError> {
    let (rest, tls, usual) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (rest, None, 15_672),
        (_, Some(rest)) => (rest, Some(trust.clone()), 15_671),
        (None, None) => {
            return Err(CallError::Unreachable(format!(
                "cannot use the URL {url}: give one of the form http://host:port or \
                 https://host:port"
            )));
        }
    };
    let rest = rest.trim_end_matches('/');
    let authority = match rest.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => rest.to_owned(),
        _ => format!("{rest}:{usual}"),
    };
    Ok((authority, tls))
}

/// Variables that say which node is meant where `-n` does not, as they name a node that starts.
const NODE_NAMES: [&str; 2] = ["LEVERET_NODE_NAME", "RABBITMQ_NODENAME"];

/// The name of the node that is meant: that of the command, or that of the environment. A URL says
/// by itself which node is meant: the environment then names another, the one of this machine.
#[must_use]
pub fn meant(given: Option<&str>, url: Option<&str>) -> Option<String> {
    meant_by(given, url, |name| std::env::var(name).ok())
}

fn meant_by(
    given: Option<&str>,
    url: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let is_name = |name: &String| !name.is_empty();
    given.map(str::to_owned).filter(is_name).or_else(|| {
        let mut names = NODE_NAMES.iter().filter_map(|name| variable(name));
        names.find(is_name).filter(|_| url.is_none())
    })
}

/// Whether a user who says `meant` on the host `here` means the node of this name on the host
/// `there`. Without a host, the user's own is meant, and a node's name its own.
fn is_meant(meant: &str, node: &str, here: &str, there: &str) -> bool {
    let is_at = |full: &str, name: &str, host: &str| {
        let at = full
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('@'));
        let short = host.split('.').next().unwrap_or(host);
        !name.contains('@') && at.is_some_and(|at| at == host || at == short)
    };
    meant == node || is_at(node, meant, here) || is_at(meant, node, there)
}

fn good(answer: Answer) -> Result<Answer, CallError> {
    match answer.status {
        _ if answer.is_good() => Ok(answer),
        401 => Err(CallError::Refused(
            401,
            "the node does not know these credentials; check the user and the password".to_owned(),
        )),
        status => Err(CallError::Refused(status, answer.reason())),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_meant, meant_by, split_url};
    use crate::trust::Trust;

    #[test]
    fn a_url_says_whether_tls_is_spoken_and_where() {
        let trust = Trust::File("ca.pem".into());
        let tls = Some(trust.clone());
        for (url, authority, tls) in [
            ("http://form", "form:15672", &None),
            ("https://form", "form:15671", &tls),
            ("https://form:443/", "form:443", &tls),
            ("http://[::1]:1", "[::1]:1", &None),
            ("https://[::1]", "[::1]:15671", &tls),
        ] {
            let split = split_url(url, &trust).expect(url);
            assert_eq!((split.0.as_str(), &split.1), (authority, tls), "{url}");
        }
        for url in ["form", "ftp://form", "HTTP//form", ""] {
            assert!(split_url(url, &trust).is_err(), "{url}");
        }
    }

    #[test]
    fn a_name_without_a_host_is_one_on_this_host() {
        for (meant, node, is) in [
            ("rabbit@burrow", "rabbit@burrow", true),
            ("rabbit", "rabbit", true),
            ("rabbit", "rabbit@burrow", true),
            ("rabbit", "rabbit@burrow.warren.example", true),
            ("rabbit", "rabbit@form", false),
            ("rabbit", "rabbit2@burrow", false),
            ("rabbit@burrow", "rabbit", true),
            ("rabbit@burrow.warren.example", "rabbit", true),
            ("rabbit@form", "rabbit", false),
            ("rabbit2@burrow", "rabbit", false),
            ("rabbit@form", "rabbit@burrow", false),
            ("", "rabbit@burrow", false),
        ] {
            let host = "burrow.warren.example";
            assert_eq!(is_meant(meant, node, host, host), is, "{meant} {node}");
        }
        // A node's name without a host is one on the node's host, which may be another.
        let is_meant = |name| is_meant(name, "rabbit", "burrow", "form");
        assert!(is_meant("rabbit@form") && !is_meant("rabbit@burrow"));
    }

    #[test]
    fn a_url_or_a_name_that_is_given_goes_before_the_environment() {
        let (own, rabbits) = ("LEVERET_NODE_NAME", "RABBITMQ_NODENAME");
        let url = Some("http://form");
        for (given, url, set, expected) in [
            (None, None, &[][..], None),
            (None, None, &[(rabbits, "r")], Some("r")),
            (None, None, &[(rabbits, "r"), (own, "l")], Some("l")),
            (None, None, &[(rabbits, "r"), (own, "")], Some("r")),
            (None, url, &[(rabbits, "r"), (own, "l")], None),
            (Some("g"), url, &[(rabbits, "r")], Some("g")),
            (Some("g"), None, &[(rabbits, "r")], Some("g")),
            (Some(""), None, &[(rabbits, "r")], Some("r")),
            (Some(""), url, &[(rabbits, "r")], None),
        ] {
            let variable = |name: &str| {
                let found = set.iter().find(|(variable, _)| *variable == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let meant = meant_by(given, url, variable);
            assert_eq!(meant.as_deref(), expected, "{given:?} {url:?} {set:?}");
        }
    }
}
