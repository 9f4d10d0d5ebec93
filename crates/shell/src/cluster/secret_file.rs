//! The cluster's secret in a file: who may read the file is a member.
//!
//! A secret is a line. The first is the one that this node proves; it accepts all of them.

use super::acceptor::host;
use super::{ClusterConfig, ClusterError};
use leveret_types::limits::{PEER_SECRET_FILE_BYTES_MAX, PEER_SECRETS_MAX};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Random bytes of a secret that is made here.
const RANDOM_BYTES: usize = 32;

/// The secrets that this node is to accept, of which it proves the first: the one that it is given,
/// or those of its file, which is made where all nodes are on this machine.
///
/// # Errors
/// What the operator has to change.
pub(super) fn secrets(config: &ClusterConfig) -> Result<Vec<Vec<u8>>, ClusterError> {
    if let Some(secrets) = known(config)? {
        return Ok(secrets);
    }
    let path = path(config);
    let failed = |error| failed(&path, error);
    make(&path).map_err(failed)?;
    let made = read(&path).map_err(failed)?;
    tracing::info!(path = %path.display(), "the cluster's secret was made");
    made.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}

/// The same of a node that runs, for which nothing is made.
///
/// # Errors
/// What the operator has to change.
pub(super) fn secrets_there(config: &ClusterConfig) -> Result<Vec<Vec<u8>>, ClusterError> {
    known(config)?.ok_or_else(|| failed(&path(config), io::ErrorKind::NotFound.into()))
}

fn path(config: &ClusterConfig) -> PathBuf {
    let own_path = || config.file.with_file_name("cluster.secret");
    config.secret_file.clone().unwrap_or_else(own_path)
}

fn failed(path: &Path, source: io::Error) -> ClusterError {
    let path = path.to_owned();
    ClusterError::SecretFile { path, source }
}

/// The same as far as it is there; nothing if this node may make one.
///
/// # Errors
/// What the operator has to change.
pub(super) fn known(config: &ClusterConfig) -> Result<Option<Vec<Vec<u8>>>, ClusterError> {
    if !config.secret.is_empty() {
        return Ok(Some(vec![config.secret.clone()]));
    }
    let path = path(config);
    if let Some(secrets) = read(&path).map_err(|error| failed(&path, error))? {
        return Ok(Some(secrets));
    }
    let mut others = config.join.iter().filter(|a| **a != config.advertised);
    let listed = config.join.iter().chain([&config.advertised]);
    let is_reached = !config.address.ip().is_loopback() || !listed.clone().all(|a| is_loopback(a));
    if is_reached {
        return Err(ClusterError::NoSecret(config.address));
    }
    if config.secret_file.is_none() && others.next().is_some() {
        // Each node would make one of its own, and none would let another in.
        return Err(ClusterError::SecretOfItsOwn(path));
    }
    Ok(None)
}

/// What the file says, if there is one.
fn read(path: &Path) -> io::Result<Option<Vec<Vec<u8>>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    if let Some(why) = objection(is_own, metadata.mode() & 0o777) {
        return Err(io::Error::other(why));
    }
    let mut text = Vec::new();
    let one_more = PEER_SECRET_FILE_BYTES_MAX as u64 + 1;
    file.take(one_more).read_to_end(&mut text)?;
    if text.len() > PEER_SECRET_FILE_BYTES_MAX {
        // A part of it would pass for the secret, at each node that has the same beginning.
        return Err(io::Error::other(format!(
            "it is longer than {PEER_SECRET_FILE_BYTES_MAX} bytes: use a shorter secret"
        )));
    }
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let secrets: Vec<Vec<u8>> = lines
        .filter(|l| !l.is_empty())
        .map(<[u8]>::to_vec)
        .collect();
    match secrets.len() {
        0 => Err(io::Error::other("there is no secret in it")),
        1..=PEER_SECRETS_MAX => Ok(Some(secrets)),
        count => Err(io::Error::other(format!(
            "there are {count} lines in it, each a secret: at most {PEER_SECRETS_MAX} are accepted \
             at a time"
        ))),
    }
}

/// Why a file of these permissions is no place for a secret. Who may read another's file is decided
/// by whoever hands it out: secrets of Docker and Kubernetes are root's, and readable by the node.
fn objection(is_own: bool, mode: u32) -> Option<String> {
    let (forbidden, what) = match is_own {
        true => (0o077, "read"),
        false => (0o022, "write"),
    };
    (mode & forbidden != 0).then(|| {
        format!(
            "others can {what} it (mode {mode:03o}): chmod 600, and change the secret if they have"
        )
    })
}

/// Makes the file, whole or not at all, unless another node makes it first.
fn make(path: &Path) -> io::Result<()> {
    let mut random = [0; RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let new = beside(path, &text[..16]);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    let linked = file
        .write_all(format!("{text}\n").as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::hard_link(&new, path));
    fs::remove_file(&new)?;
    let linked = match linked {
        Err(error) if has_no_links(&error) => make_in_place(path, &text),
        linked => linked,
    };
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

/// Whether the file system knows no second name of a file.
fn has_no_links(error: &io::Error) -> bool {
    let errno = error
        .raw_os_error()
        .map(rustix::io::Errno::from_raw_os_error);
    matches!(
        errno,
        Some(rustix::io::Errno::PERM | rustix::io::Errno::NOTSUP)
    )
}

/// Makes the file under its name at once: who reads it before it is written is refused.
fn make_in_place(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let written = file.write_all(format!("{text}\n").as_bytes());
    written.and_then(|()| file.sync_all()).inspect_err(|_| {
        let _ = fs::remove_file(path);
    })
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{suffix}"));
    path.with_file_name(name)
}

fn is_loopback(address: &str) -> bool {
    let host = host(address);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::super::handshake::Protection;
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    #[test]
    fn another_users_file_may_be_readable_and_never_writable() {
        for (is_own, mode, is_good) in [
            (true, 0o600, true),
            (true, 0o400, true),
            (true, 0o440, false),
            (true, 0o604, false),
            (false, 0o444, true),
            (false, 0o440, true),
            (false, 0o460, false),
            (false, 0o646, false),
        ] {
            assert_eq!(objection(is_own, mode).is_none(), is_good, "{mode:o}");
        }
    }

    #[test]
    fn a_file_without_a_second_name_is_made_in_place_once() {
        let folder = Folder::new();
        let path = folder.0.path().join("secret");
        make_in_place(&path, "abc").expect("made");
        assert_eq!(read(&path).expect("its own"), Some(vec![b"abc".to_vec()]));
        let error = make_in_place(&path, "def").expect_err("it is there");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn only_loopback_makes_a_secret_of_its_own() {
        for (address, loopback) in [
            ("127.0.0.1:7000", true),
            ("[::1]:7000", true),
            ("localhost:7000", true),
            ("10.0.0.1:7000", false),
            ("burrow:7000", false),
            ("", false),
        ] {
            assert_eq!(is_loopback(address), loopback, "{address:?}");
        }
    }

    struct Folder(TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a folder"))
        }

        fn config(&self, join: &[&str]) -> ClusterConfig {
            ClusterConfig {
                address: ([127, 0, 0, 1], 7000).into(),
                advertised: "127.0.0.1:7000".to_owned(),
                join: join.iter().map(|&address| address.to_owned()).collect(),
                secret: Vec::new(),
                secret_file: None,
                protection: Protection::Sealed,
                tls: None,
                file: self.0.path().join("cluster"),
                name: String::new(),
            }
        }
    }

    #[test]
    fn a_lone_node_makes_a_secret_that_its_user_alone_can_read_and_keeps_it() {
        let folder = Folder::new();
        let config = folder.config(&[]);
        let made = secrets(&config).expect("made");
        assert_eq!((made.len(), made[0].len()), (1, 2 * RANDOM_BYTES));
        assert_eq!(secrets(&config).expect("read"), made);
        let path = folder.0.path().join("cluster.secret");
        let mode = fs::metadata(&path).expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.0.path()).expect("a folder").count(), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("its own");
        let error = secrets(&config)
            .expect_err("others can read it")
            .to_string();
        assert!(error.contains("chmod 600"), "{error}");
        let given = ClusterConfig {
            secret: b"given".to_vec(),
            ..config
        };
        assert_eq!(secrets(&given).expect("given"), [b"given"]);
    }

    #[test]
    fn as_many_lines_as_may_be_are_secrets_and_one_more_is_refused() {
        let folder = Folder::new();
        let config = folder.config(&[]);
        secrets(&config).expect("made");
        let path = folder.0.path().join("cluster.secret");
        fs::write(&path, "new \r\n\n old\n").expect("its own");
        let expected = [b"new", b"old"];
        assert_eq!(expected.len(), PEER_SECRETS_MAX);
        assert_eq!(secrets_there(&config).expect("two"), expected);
        fs::write(&path, "new\nold\nolder\n").expect("its own");
        let error = secrets_there(&config).expect_err("three").to_string();
        assert!(error.contains("3 lines"), "{error}");
        fs::write(&path, " \n").expect("its own");
        let error = secrets_there(&config).expect_err("none").to_string();
        assert!(error.contains("no secret"), "{error}");
        fs::remove_file(&path).expect("its own");
        let error = secrets_there(&config).expect_err("gone").to_string();
        assert!(error.contains("cluster.secret"), "{error}");
    }

    #[test]
    fn a_file_of_the_most_bytes_is_a_secret_and_one_byte_more_is_refused() {
        let folder = Folder::new();
        let config = folder.config(&[]);
        secrets(&config).expect("made");
        let path = folder.0.path().join("cluster.secret");
        let most = vec![b's'; PEER_SECRET_FILE_BYTES_MAX];
        fs::write(&path, &most).expect("its own");
        assert_eq!(secrets_there(&config).expect("the most"), [most]);
        fs::write(&path, [b's'; PEER_SECRET_FILE_BYTES_MAX + 1]).expect("its own");
        let error = secrets_there(&config).expect_err("more").to_string();
        assert!(error.contains("4096 bytes"), "{error}");
    }

    #[test]
    fn nodes_that_share_a_file_have_one_secret_whoever_makes_it() {
        let folder = Folder::new();
        let listed = ["127.0.0.1:7000", "127.0.0.1:7001"];
        let apart = folder.config(&listed);
        let error = secrets(&apart).expect_err("each would have its own");
        assert!(error.to_string().contains("cluster.secret_file"), "{error}");
        let shared = ClusterConfig {
            secret_file: Some(folder.0.path().join("shared")),
            ..apart
        };
        let threads: Vec<_> = (0..8)
            .map(|_| shared.clone())
            .map(|config| std::thread::spawn(move || secrets(&config).expect("made or read")))
            .collect();
        let ended = threads.into_iter().map(std::thread::JoinHandle::join);
        let read: Vec<_> = ended.map(|read| read.expect("no panic")).collect();
        assert!(read.iter().all(|secrets| *secrets == read[0]));
    }
}
