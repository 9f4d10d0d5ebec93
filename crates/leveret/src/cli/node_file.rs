//! What a running node leaves in its data folder for the command line: `node.json` (who it is,
//! where it listens) and `cli.token` (the right to administer it, for whoever may read that
//! folder).

use leveret_shell::small_file;
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// Name of the file that says who the node is.
pub const NODE_FILE: &str = "node.json";
/// Name of the file that holds the token.
pub const TOKEN_FILE: &str = "cli.token";

/// Name of the socket file by which the command line reaches the node, whatever its HTTP listeners
/// are.
pub const CONTROL_SOCKET: &str = "control.sock";

/// Mode of both files: their owner's alone.
const PRIVATE: u32 = 0o600;

/// Who the node is and where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFile {
    /// Name of the node.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Addresses of AMQP.
    pub amqp: Vec<SocketAddr>,
    /// Address of the HTTP API; none where it is off.
    pub http: Option<SocketAddr>,
    /// Address of the metrics; none where they are off.
    pub metrics: Option<SocketAddr>,
}

impl NodeFile {
    /// Writes the file into the data folder, whole or not at all.
    pub fn write(&self, root: &Path) -> io::Result<()> {
        let text = |a: &SocketAddr| Value::String(a.to_string());
        let json = json!({
            "name": self.name,
            "pid": self.pid,
            "amqp": self.amqp.iter().map(text).collect::<Vec<_>>(),
            "http": self.http.as_ref().map(text),
            "metrics": self.metrics.as_ref().map(text),
        });
        small_file::replace(
            &root.join(NODE_FILE),
            format!("{json:#}\n").as_bytes(),
            PRIVATE,
        )
    }

    /// Reads the file of the node whose data folder this is.
    pub fn read(root: &Path) -> io::Result<Self> {
        let bytes = fs::read(root.join(NODE_FILE))?;
        let json: Value = serde_json::from_slice(&bytes)?;
        let address = |v: &Value| v.as_str().and_then(|a| a.parse().ok());
        let name = json["name"].as_str().map(str::to_owned);
        Ok(Self {
            name: name.ok_or_else(|| io::Error::other("it names no node"))?,
            pid: json["pid"]
                .as_u64()
                .and_then(|p| p.try_into().ok())
                .unwrap_or(0),
            amqp: json["amqp"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(address)
                .collect(),
            http: address(&json["http"]),
            metrics: address(&json["metrics"]),
        })
    }
}

/// The address by which a program on this machine reaches a listener: one that listens everywhere
/// is reached by loopback.
#[must_use]
pub fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listener.port())
}

/// Writes a token made of these random bytes, readable by the owner alone, and returns it.
pub fn write_token(root: &Path, random: [u8; 32]) -> io::Result<String> {
    let token: String = random.iter().map(|b| format!("{b:02x}")).collect();
    small_file::replace(&root.join(TOKEN_FILE), token.as_bytes(), PRIVATE)?;
    Ok(token)
}

/// Reads the token.
pub fn read_token(root: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(root.join(TOKEN_FILE))?.trim().to_owned())
}

/// Takes both files away: the node has stopped.
pub fn remove(root: &Path) {
    for name in [NODE_FILE, TOKEN_FILE] {
        // What is not there need not be removed, and what cannot be will be overwritten at the next
        // start.
        let _ = fs::remove_file(root.join(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_a_node_writes_the_command_line_reads() {
        let root = std::env::temp_dir().join(format!("leveret-node-file-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let file = NodeFile {
            name: "leveret@burrow".to_owned(),
            pid: 7,
            amqp: vec!["127.0.0.1:5672".parse().unwrap()],
            http: "0.0.0.0:15672".parse().ok(),
            metrics: None,
        };
        file.write(&root).unwrap();
        assert_eq!(NodeFile::read(&root).unwrap(), file);
        assert_eq!(reachable(file.http.unwrap()).to_string(), "127.0.0.1:15672");
        let token = write_token(&root, [0xAB; 32]).unwrap();
        assert_eq!(token.len(), 64);
        assert_eq!(read_token(&root).unwrap(), token);
        let mode = fs::metadata(root.join(TOKEN_FILE)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        remove(&root);
        assert!(NodeFile::read(&root).is_err());
        fs::remove_dir_all(&root).unwrap();
    }
}
