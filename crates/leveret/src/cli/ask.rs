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
    /// Name of the node that is meant: no other does anything [env: LEVERET_NODE_NAME,
    /// RABBITMQ_NODENAME, unless --url is given]
    #[arg(short = 'n', long = "node", value_name = "NAME")]
    pub(super) named: Option<String>,
    /// HTTP API of a node elsewhere, http://host:port or https://host:port
    #[arg(long, value_name = "URL")]
    pub(super) url: Option<String>,
    /// User at that node
    #[arg(long, value_name = "NAME", default_value = "guest")]
    pub(super) user: String,
    /// The user's password, which everybody on this machine can read among the arguments: better
    /// are --password-file, the variable LEVERET_PASSWORD, and the prompt [of guest: guest]
    #[arg(long, value_name = "WORD", conflicts_with = "password_file")]
    pub(super) password: Option<String>,
    /// File whose first line is the user's password; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(super) password_file: Option<PathBuf>,
    /// Authorities (PEM) of which one vouches for the node, instead of those of this system; or the
    /// node's own certificate
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(super) ca_file: Option<PathBuf>,
    /// Speak to whoever answers at an https URL, whatever certificate it shows
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
        self.target()?.get(path).map_err(|error| match error {
            // All that the API says is that.
            CallError::Refused(404, _) => {
                format!("nothing is called so: the node does not know {path}; look at the names")
            }
            other => other.to_string(),
        })
    }
}
