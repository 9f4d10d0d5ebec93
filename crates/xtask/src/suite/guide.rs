//! The operator's guide, the table of commands and the operators' tasks: pages whose commands are
//! run.

use anyhow::Result;

use super::bench::{Bench, Report};
use super::console;

/// The pages of the documentation.
pub fn docs(bench: &Bench) -> Result<Report> {
    console::run(bench, &console::pages("docs")?)
}

/// Commands of RabbitMQ's tools with their exit codes and what they print. With `--broker rabbitmq`
/// they are given to Debian's tools, whose answers they must be too.
pub fn commands(bench: &Bench) -> Result<Report> {
    console::run(bench, &console::pages("tests/interop/commands")?)
}

/// What operators do, from what they see to what they have done.
pub fn operators(bench: &Bench) -> Result<Report> {
    console::run(bench, &console::pages("tests/operators")?)
}
