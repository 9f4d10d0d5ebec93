//! Which node is meant, and by what right.

use super::http::{Answer, Client, Credentials};
use super::node_file::{self, CONTROL_SOCKET, NodeFile};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// How the user names the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The node's data folder, where this is the same machine.
    pub data_dir: PathBuf,
    /// The HTTP API, `http://host:port`, where it is not.
    pub url: Option<String>,
    /// User of the broker; only with `url`.
    pub user: String,
    /// The user's password.
    pub password: String,
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
    /// The node refuses: HTTP status and reason.
    Refused(u16, String),
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(text) | Self::Refused(_, text) => f.write_str(text),
        }
    }
}

impl Target {
    /// Finds the node; it is not asked yet.
    pub fn find(address: &Address) -> Result<Self, CallError> {
        if let Some(url) = &address.url {
            let authority = url.strip_prefix("http://").ok_or_else(|| {
                CallError::Unreachable(format!(
                    "cannot use the URL {url}: give one of the form http://host:port"
                ))
            })?;
            let authority = authority.trim_end_matches('/');
            let authority = match authority.rsplit_once(':') {
                Some((_, port)) if port.parse::<u16>().is_ok() => authority.to_owned(),
                _ => format!("{authority}:15672"),
            };
            return Ok(Self {
                client: Client {
                    authority,
                    socket: None,
                    credentials: Credentials::User(address.user.clone(), address.password.clone()),
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
                credentials: Credentials::Token(token),
                timeout: address.timeout,
            },
            name: Some(node.name),
        })
    }

    /// No node at all: for what needs none.
    #[must_use]
    pub fn nowhere() -> Self {
        Self {
            client: Client {
                authority: String::new(),
                socket: None,
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
    pub fn upload(&self, path: &str, bytes: &[u8]) -> Result<Value, CallError> {
        let answer = self
            .client
            .send("POST", path, &[], Some(bytes))
            .map_err(|error| self.unreachable(&error))?;
        good(answer).map(|answer| answer.json())
    }

    fn unreachable(&self, error: &std::io::Error) -> CallError {
        let name = self.name.as_deref().unwrap_or(&self.client.authority);
        CallError::Unreachable(format!(
            "unable to connect to node '{name}' at {}: nodedown ({error}); is it running?",
            self.client.authority
        ))
    }
}

fn good(answer: Answer) -> Result<Answer, CallError> {
    match answer.status {
        _ if answer.is_good() => Ok(answer),
        401 => Err(CallError::Refused(
            401,
            "the node does not know these credentials; check --user and --password".to_owned(),
        )),
        status => Err(CallError::Refused(status, answer.reason())),
    }
}
