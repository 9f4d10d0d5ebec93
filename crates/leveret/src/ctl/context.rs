//! What a command has to work with, what it gives back, and why it fails.

use super::Options;
use crate::cli::table::Rows;
use crate::cli::target::{CallError, Target};

/// Exit codes of RabbitMQ's tools (those of sysexits.h).
pub mod code {
    /// The command was used wrongly.
    pub const USAGE: u8 = 64;
    /// An argument names or says something that cannot be.
    pub const DATA: u8 = 65;
    /// No such user.
    pub const NO_USER: u8 = 67;
    /// The node cannot be reached.
    pub const UNAVAILABLE: u8 = 69;
    /// The node refuses.
    pub const SOFTWARE: u8 = 70;
    /// The node did not do it in time.
    pub const TEMPORARY: u8 = 75;
}

/// Commands, a code of the reason, and the code with which RabbitMQ's command ends in its place.
const OWN: &[(&str, u8, u8)] = &[
    ("add_member", code::DATA, code::UNAVAILABLE),
    ("await_online_nodes", code::TEMPORARY, code::SOFTWARE),
    ("clear_operator_policy", code::DATA, code::UNAVAILABLE),
    ("clear_policy", code::DATA, code::UNAVAILABLE),
    ("delete_queue", code::DATA, code::USAGE),
    ("enable", code::DATA, code::SOFTWARE),
    ("enable_feature_flag", code::DATA, code::USAGE),
    ("forget_cluster_node", code::DATA, code::UNAVAILABLE),
    ("peek", code::DATA, code::UNAVAILABLE),
    ("quorum_status", code::DATA, code::UNAVAILABLE),
    ("set", code::DATA, code::SOFTWARE),
    ("set_log_level", code::DATA, code::UNAVAILABLE),
    ("set_operator_policy", code::DATA, code::UNAVAILABLE),
    ("set_permissions", code::DATA, code::UNAVAILABLE),
    ("set_policy", code::DATA, code::UNAVAILABLE),
    ("set_vhost_limits", code::DATA, code::UNAVAILABLE),
    ("stream_status", code::SOFTWARE, code::UNAVAILABLE),
];

/// What a command gives back.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Nothing to say: it is done.
    Done,
    /// A line or more.
    Text(String),
    /// An object for machines, and how people read it.
    Object(serde_json::Value, String),
    /// A list, in whatever form is asked for.
    Rows(Rows),
    /// A list that is shown in boxes, unless another form is asked for.
    Boxed(Rows),
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Exit code.
    pub code: u8,
    /// What goes to standard error.
    pub text: String,
}

impl Failure {
    /// The command was used wrongly.
    pub fn usage(text: impl Into<String>) -> Self {
        Self {
            code: code::USAGE,
            text: format!("Error (argument validation): {}", text.into()),
        }
    }

    /// The failure with the code that RabbitMQ's command of this name has for it.
    #[must_use]
    pub fn of_command(self, command: &str) -> Self {
        let mut own = OWN.iter();
        let own = own.find(|(name, code, _)| *name == command && *code == self.code);
        let code = own.map_or(self.code, |(_, _, own)| *own);
        Self { code, ..self }
    }

    /// The node, or something on it, is not as the command needs it.
    pub fn new(code: u8, text: impl Into<String>) -> Self {
        Self {
            code,
            text: format!("Error:\n{}", text.into()),
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let code = match &error {
            CallError::Unreachable(_) | CallError::OtherNode(_) => code::UNAVAILABLE,
            CallError::Refused(400 | 412, _) => code::DATA,
            CallError::Refused(404, _) => code::DATA,
            CallError::Refused(503, _) => code::TEMPORARY,
            CallError::Refused(..) => code::SOFTWARE,
        };
        Self {
            code,
            text: format!("Error: {error}"),
        }
    }
}

/// What a command has to work with.
pub struct Context<'a> {
    /// The command's name.
    pub command: &'a str,
    /// The options that were given.
    pub options: &'a Options,
    /// The positional arguments.
    pub arguments: &'a [String],
    /// The node.
    pub target: &'a Target,
    /// Lines to show before the result, unless nobody wants them.
    pub(super) banner: &'a dyn Fn(&str),
}

impl Context<'_> {
    /// Shows a line such as `Listing users ...`, unless `-q`, `-s` or a machine's format forbids
    /// it.
    pub fn banner(&self, line: impl AsRef<str>) {
        (self.banner)(line.as_ref());
    }

    /// The same without lines before the result.
    pub(super) fn without_banner(&self) -> Context<'_> {
        Context {
            command: self.command,
            options: self.options,
            arguments: self.arguments,
            target: self.target,
            banner: &|_| {},
        }
    }

    /// Argument `index`; empty where it was not given (the command table has checked how many there
    /// are).
    #[must_use]
    pub fn argument(&self, index: usize) -> &str {
        self.arguments.get(index).map_or("", String::as_str)
    }

    /// The virtual host that is meant.
    #[must_use]
    pub fn vhost(&self) -> &str {
        &self.options.vhost
    }
}
