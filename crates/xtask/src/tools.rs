//! Foreign toolchains: found if they are there, installed from Debian's packages where that is
//! possible, named as missing otherwise.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

/// A toolchain or server that a suite needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Python 3 with `venv`.
    Python,
    /// The Go toolchain.
    Go,
    /// Node.js with npm.
    Node,
    /// The browser that the operators' page is shown in.
    Chromium,
    /// A Java development kit and Maven.
    Java,
    /// Ruby and its client of AMQP.
    Bunny,
    /// PHP and its client of AMQP.
    PhpAmqplib,
    /// Perl and its client of AMQP.
    AnyEventRabbitMq,
    /// Nagios's checks of RabbitMQ by its HTTP API.
    NagiosRabbitMq,
    /// The command-line tools of the C client of AMQP.
    AmqpTools,
    /// The peer broker.
    RabbitMq,
    /// The key-value store that Celery keeps results in. Debian's package starts a service at the
    /// usual port where it may; the suite leaves that alone and starts its own.
    Redis,
    /// What scrapes metrics and evaluates what dashboards ask for. Debian's package starts a
    /// service at the usual port where it may; the suite leaves that alone and starts its own.
    Prometheus,
    /// The disk benchmark that the storage figures are compared with.
    Fio,
    /// The kernel's packet filter, and what makes networks and enters their namespaces.
    Nftables,
    /// What no machine has and no registry: for tests.
    #[cfg(test)]
    Impossible,
}

impl Tool {
    fn packages(self) -> &'static [&'static str] {
        match self {
            Tool::Python => &["python3", "python3-venv"],
            Tool::Go => &["golang"],
            Tool::Node => &["nodejs", "npm"],
            Tool::Chromium => &["chromium", "fonts-dejavu-core"],
            Tool::Java => &["default-jdk-headless", "maven"],
            Tool::Bunny => &["ruby", "ruby-bunny"],
            Tool::PhpAmqplib => &["php-cli", "php-amqplib"],
            Tool::AnyEventRabbitMq => &["perl", "libanyevent-rabbitmq-perl"],
            Tool::NagiosRabbitMq => &["nagios-plugins-rabbitmq"],
            Tool::AmqpTools => &["amqp-tools"],
            Tool::RabbitMq => &["rabbitmq-server"],
            Tool::Redis => &["redis-server"],
            Tool::Prometheus => &["prometheus"],
            Tool::Fio => &["fio"],
            Tool::Nftables => &["nftables", "iproute2", "util-linux"],
            #[cfg(test)]
            Tool::Impossible => &[],
        }
    }

    /// A command that succeeds when the tool is usable.
    fn probes(self) -> &'static [&'static [&'static str]] {
        match self {
            Tool::Python => &[&["python3", "-c", "import venv, ensurepip"]],
            Tool::Go => &[&["go", "version"]],
            Tool::Node => &[&["node", "--version"], &["npm", "--version"]],
            Tool::Chromium => &[&["chromium", "--version"]],
            Tool::Java => &[&["javac", "-version"], &["mvn", "--version"]],
            Tool::Bunny => &[&["ruby", "-e", "require 'bunny'"]],
            Tool::PhpAmqplib => &[&["php", "-r", "require 'PhpAmqpLib/autoload.php';"]],
            Tool::AnyEventRabbitMq => &[&["perl", "-MAnyEvent::RabbitMQ", "-e", "1"]],
            Tool::NagiosRabbitMq => &[&["sh", "-c", "command -v check_rabbitmq_overview"]],
            Tool::AmqpTools => &[&["amqp-publish", "--help"]],
            Tool::RabbitMq => &[&["test", "-x", "/usr/lib/rabbitmq/bin/rabbitmq-server"]],
            Tool::Redis => &[&["redis-server", "--version"]],
            Tool::Prometheus => &[&["prometheus", "--version"]],
            Tool::Fio => &[&["fio", "--version"]],
            Tool::Nftables => &[
                &["nft", "--version"],
                &["ip", "-V"],
                &["unshare", "--version"],
                &["nsenter", "--version"],
            ],
            #[cfg(test)]
            Tool::Impossible => &[&["false"]],
        }
    }

    fn usable(self) -> bool {
        self.probes().iter().all(|probe| succeeds(probe))
    }
}

/// Makes a tool usable, or says why it is not.
pub fn ensure(tool: Tool) -> Result<()> {
    if tool.usable() {
        return Ok(());
    }
    let packages = tool.packages().join(" ");
    if packages.is_empty() {
        bail!("{tool:?} is missing, and no package has it");
    }
    if !succeeds(&["apt-get", "--version"]) {
        bail!("{tool:?} is missing, and this machine has no apt-get to install {packages} with");
    }
    eprintln!("installing {packages}");
    if tool == Tool::RabbitMq && !std::path::Path::new("/usr/sbin/policy-rc.d").exists() {
        eprintln!("note: Debian's package starts the service; this tool uses its own ports");
    }
    if !install(tool.packages()) {
        // The package lists may be old or not there at all.
        let _ = apt(&["update"]);
        if !install(tool.packages()) {
            bail!("{tool:?} is missing, and apt-get could not install {packages}");
        }
    }
    if !tool.usable() {
        bail!("{tool:?} is installed ({packages}) and still does not run");
    }
    Ok(())
}

fn install(packages: &[&str]) -> bool {
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend_from_slice(packages);
    apt(&arguments)
}

/// Runs apt-get, through sudo where this is not the superuser and sudo asks nothing.
fn apt(arguments: &[&str]) -> bool {
    let superuser = succeeds(&["test", "-w", "/var/lib/dpkg"]);
    let mut command = if superuser {
        Command::new("apt-get")
    } else {
        let mut command = Command::new("sudo");
        command.args(["-n", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
        command
    };
    command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn succeeds(probe: &[&str]) -> bool {
    let mut command = Command::new(probe[0]);
    command
        .args(&probe[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
