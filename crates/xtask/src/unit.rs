//! What the packaged systemd unit and image keep a node's user from, and which ports of the image
//! are reached from outside, held to the files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const UNIT: &str = "packaging/leveret.service";
const IMAGE: &str = "Dockerfile";
const COMPOSE: &str = "packaging/compose.yml";

/// Lines of the unit without which its user could do more than a node needs, or read what is not
/// its own.
const UNIT_LINES: &[&str] = &[
    "User=leveret",
    "StateDirectoryMode=0700",
    "UMask=0077",
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelLogs=yes",
    "ProtectControlGroups=yes",
    "ProtectClock=yes",
    "ProtectHostname=yes",
    "ProtectProc=invisible",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "RestrictNamespaces=yes",
    "RestrictSUIDSGID=yes",
    "RestrictRealtime=yes",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
    "LockPersonality=yes",
    "MemoryDenyWriteExecute=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallFilter=~@privileged @resources @keyring",
    "CapabilityBoundingSet=CAP_NET_BIND_SERVICE",
];

/// Programs that a unit may run beside the node: those that each Debian has, however small it is.
const PROGRAMS: &[&str] = &["/usr/bin/leveret", "/bin/sh"];

/// Each line that is not there any more.
pub fn faults(root: &Path) -> Result<Vec<String>> {
    let read =
        |file: &str| fs::read_to_string(root.join(file)).with_context(|| format!("read {file}"));
    let unit = read(UNIT)?;
    let mut wrong = missing(UNIT, &unit, UNIT_LINES);
    wrong.extend(unknown_programs(&unit));
    let image = read(IMAGE)?;
    wrong.extend(missing(IMAGE, &image, &["USER leveret"]));
    wrong.extend(unreachable(&image));
    wrong.extend(unforwarded(&image, &read(COMPOSE)?));
    Ok(wrong)
}

/// The ports of the image's listeners, and what has them listen to more than the container itself.
const PORTS: [&str; 4] = ["5672", "5552", "15672", "15692"];
const LISTENS: &str = "LEVERET_LISTENERS_IP=0.0.0.0";

/// Each listener that nobody outside a container of this image reaches: it is on the container's
/// loopback, or its port is not exposed.
fn unreachable(image: &str) -> Vec<String> {
    let exposed = exposed(image);
    let mut wrong = Vec::new();
    if !image.contains(LISTENS) {
        wrong.push(format!(
            "{IMAGE}: without `{LISTENS}` nobody reaches the node"
        ));
    }
    for port in PORTS {
        if !exposed.contains(&port) {
            wrong.push(format!("{IMAGE}: port {port} is not exposed"));
        }
    }
    wrong
}

fn exposed(image: &str) -> Vec<&str> {
    let lines = image
        .lines()
        .filter_map(|line| line.strip_prefix("EXPOSE "));
    lines.flat_map(str::split_whitespace).collect()
}

/// Each exposed port of the image that a node of the compose file does not forward.
fn unforwarded(image: &str, compose: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for ports in compose.lines().filter(|line| line.contains("ports: [")) {
        for port in exposed(image) {
            if !ports.contains(&format!(":{port}\"")) {
                wrong.push(format!("{COMPOSE}: {} lack {port}", ports.trim()));
            }
        }
    }
    wrong
}

/// Each program of the unit that a small system may lack.
fn unknown_programs(unit: &str) -> Vec<String> {
    let lines = unit.lines().filter(|line| line.starts_with("Exec"));
    let programs = lines.filter_map(|line| line.split_once('=')?.1.split_whitespace().next());
    programs
        .filter(|program| !PROGRAMS.contains(program))
        .map(|program| format!("{UNIT}: not every system has `{program}`"))
        .collect()
}

fn missing(file: &str, text: &str, wanted: &[&str]) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let absent = wanted.iter().filter(|line| !lines.contains(line));
    absent
        .map(|line| format!("{file}: without `{line}` a node's user may do more than it needs"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_a_nodes_user_is_missed() {
        let whole = UNIT_LINES.join("\n");
        assert!(missing(UNIT, &whole, UNIT_LINES).is_empty());
        for line in UNIT_LINES {
            let without = whole.replace(line, "#");
            assert!(!missing(UNIT, &without, UNIT_LINES).is_empty(), "{line}");
        }
        assert_eq!(
            faults(&crate::run::root()).expect("both are there"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_program_that_a_small_system_lacks_is_found() {
        let unit = "ExecStart=/usr/bin/leveret serve\nExecReload=/bin/sh -c 'kill -HUP $MAINPID'";
        assert_eq!(unknown_programs(unit), [""; 0]);
        assert_eq!(
            unknown_programs("ExecReload=/bin/kill -HUP $MAINPID").len(),
            1
        );
    }

    #[test]
    fn a_port_that_nobody_outside_a_container_reaches_is_missed() {
        let image = |ports: &[&str]| format!("EXPOSE {}\nENV {LISTENS}\n", ports.join(" "));
        let whole = image(&PORTS);
        assert_eq!(unreachable(&whole), [""; 0]);
        assert_eq!(unreachable(&image(&PORTS[1..])).len(), 1);
        assert_eq!(unreachable(&whole.replace(LISTENS, "")).len(), 1);
        let all = "ports: [\"5672:5672\", \"5553:5552\", \"15672:15672\", \"15692:15692\"]";
        assert_eq!(unforwarded(&whole, all), [""; 0]);
        assert_eq!(unforwarded(&whole, "ports: [\"5672:5672\"]").len(), 3);
    }
}
