//! What the packaged systemd unit and image keep a node's user from, held to the files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const UNIT: &str = "packaging/leveret.service";
const IMAGE: &str = "Dockerfile";

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

/// Each line that is not there any more.
pub fn faults(root: &Path) -> Result<Vec<String>> {
    let read =
        |file: &str| fs::read_to_string(root.join(file)).with_context(|| format!("read {file}"));
    let mut wrong = missing(UNIT, &read(UNIT)?, UNIT_LINES);
    wrong.extend(missing(IMAGE, &read(IMAGE)?, &["USER leveret"]));
    Ok(wrong)
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
}
