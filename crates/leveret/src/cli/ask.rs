//! Which node a command means, and as whom it asks.

use super::password::PasswordSource;
use super::target::{self, Address, CallError, Target};
use crate::trust::Trust;
use clap::Args;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub(super) struct NodeFolder {
    /// Data folder of the node, on this machine
    #[arg(
        long,
        value_name = "FOLDER",
        env = "LEVERET_DATA_DIR",
        default_value = "./leveret-data"
    )]
    pub(super) data_dir: PathBuf,
}

#[derive(Args)]
pub(super) struct AskOptions {
    #[command(flatten)]
    pub(super) node: NodeFolder,
    /// Refuse to act unless the node has this name [env: LEVERET_NODE_NAME, RABBITMQ_NODENAME,
    /// unless --url is given]
    #[arg(short = 'n', long = "node", value_name = "NAME")]
    pub(super) named: Option<String>,
    /// HTTP API of a node elsewhere, http://host:port or https://host:port
    #[arg(long, value_name = "URL")]
    pub(super) url: Option<String>,
    /// User at that node
    #[arg(long, value_name = "NAME", default_value = "guest")]
    pub(super) user: String,
    /// The user's password; visible to everybody on this machine, so prefer --password-file,
    /// LEVERET_PASSWORD or the prompt [of guest: guest]
    #[arg(long, value_name = "WORD", conflicts_with = "password_file")]
    pub(super) password: Option<String>,
    /// File whose first line is the user's password; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(super) password_file: Option<PathBuf>,
    /// PEM file of the authorities to trust instead of the system's, or of the node's own
    /// certificate
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(super) ca_file: Option<PathBuf>,
    /// Do not check the certificate of an https URL
    #[arg(long)]
    pub(super) insecure: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl AskOptions {
    pub(super) fn target(&self) -> Result<Target, String> {
        Target::find(&Address {
            node: target::meant(self.named.as_deref(), self.url.as_deref()),
            data_dir: self.node.data_dir.clone(),
            url: self.url.clone(),
            user: self.user.clone(),
            password: PasswordSource {
                given: self.password.clone(),
                file: self.password_file.clone(),
            },
            trust: match (self.insecure, &self.ca_file) {
                (true, _) => Trust::Anybody,
                (false, Some(path)) => Trust::File(path.clone()),
                (false, None) => Trust::System,
            },
            timeout: Duration::from_secs(60),
        })
        .map_err(|error| error.to_string())
    }

    pub(super) fn get(&self, path: &str) -> Result<Value, String> {
        self.target()?
            .get(path)
            .map_err(|error| absent(error, path))
    }

    /// A GET of one object: where it is not there, `object` says what was meant.
    pub(super) fn get_object(&self, path: &str, object: &Object<'_>) -> Result<Value, String> {
        self.target()?
            .get(path)
            .map_err(|error| object.absent(error))
    }
}

/// What a command is about, for who named something that is not there: the API says no more than
/// "Not Found".
pub(super) struct Object<'a> {
    /// The kind and the name, such as `queue 'q' in vhost '/'`.
    pub(super) what: &'a str,
    /// The command that lists what there is, without `leveret`.
    pub(super) list: &'a str,
}

impl Object<'_> {
    /// Why a request about it failed.
    pub(super) fn absent(&self, error: CallError) -> String {
        let Object { what, list } = self;
        match error {
            CallError::Refused(404, _) => {
                format!("there is no {what}; `leveret {list}` shows what there is")
            }
            other => other.to_string(),
        }
    }
}

/// A queue, as errors name it.
pub(super) fn queue_of(vhost: &str, name: &str) -> String {
    format!("queue '{name}' in vhost '{vhost}'")
}

/// Why a GET failed about whose object nothing else is known.
pub(super) fn absent(error: CallError, path: &str) -> String {
    match error {
        CallError::Refused(404, _) => format!(
            "the node has no such object: GET {path} answered 404; check the name and, with -p, \
             the virtual host"
        ),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_named_and_how_to_find_what_is() {
        let object = Object {
            what: &queue_of("/", "none"),
            list: "list queues",
        };
        let missing = || CallError::Refused(404, "Not Found".to_owned());
        assert_eq!(
            object.absent(missing()),
            "there is no queue 'none' in vhost '/'; `leveret list queues` shows what there is"
        );
        assert!(absent(missing(), "/api/nodes/none").contains("GET /api/nodes/none"));
        let refused = CallError::Refused(400, "no".to_owned());
        assert_eq!(object.absent(refused.clone()), "no");
        assert_eq!(absent(refused, "/api/nodes"), "no");
    }
}
