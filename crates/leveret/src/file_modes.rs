//! Who else on this machine can read what a node keeps.

use crate::config::{Config, Loaded};
use crate::serve::definitions::{self, files_of};
use leveret_metadata::{Definitions, UserDefinition};
use rustix::fs::Mode;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Permissions of users that are neither a file's owner nor in its group.
const OF_OTHERS: u32 = 0o007;
/// Of these, to read.
const READ_BY_OTHERS: u32 = 0o004;

/// Has this process make files and folders that its user alone can use: messages, password hashes
/// and logs are nobody else's to read. To be called before there are other threads.
pub fn keep_private() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// What other users of this machine can read and should not: a line each.
#[must_use]
pub fn exposed(loaded: &Loaded) -> Vec<String> {
    let config = &loaded.config;
    let folders = config.folders.all().into_iter();
    let folders = folders.filter_map(|folder| {
        let mode = mode(folder).filter(|mode| mode & OF_OTHERS != 0)?;
        Some(format!(
            "other users of this machine can look into the folder {} (mode {mode:03o}): \
             chmod -R o= {}",
            folder.display(),
            folder.display(),
        ))
    });
    let files = keys(config).map(|file| (file, "the private key in"));
    let typed = loaded.secret_files.iter().map(PathBuf::as_path);
    let of_cluster = config.cluster.as_ref();
    let of_cluster = of_cluster.and_then(|cluster| cluster.secret_file.as_deref());
    let typed = typed.chain(of_cluster);
    let files = files.chain(typed.map(|file| (file, "a password or secret in")));
    let imported = imported(config);
    let imported = imported.iter().map(PathBuf::as_path);
    let imported = imported.filter(|file| mode_for_others(file).is_some() && has_password(file));
    let files = files.chain(imported.map(|file| (file, "passwords, or their hashes, in")));
    let files = files.filter_map(|(file, what)| {
        let mode = mode_for_others(file)?;
        Some(format!(
            "other users of this machine can read {what} {} (mode {mode:03o}): chmod o= {}",
            file.display(),
            file.display(),
        ))
    });
    folders.chain(files).collect()
}

/// The files that a start imports.
fn imported(config: &Config) -> Vec<PathBuf> {
    let source = config.first_boot.definitions.as_deref();
    // What cannot be read is told by whoever needs it.
    source.map_or_else(Vec::new, |source| files_of(source).unwrap_or_default())
}

/// Whether definitions have users with passwords; those that cannot be read show none.
fn has_password(file: &Path) -> bool {
    let definitions = definitions::read(file).unwrap_or_default();
    let definitions = serde_json::from_slice::<Definitions>(&definitions).unwrap_or_default();
    let of = |user: &UserDefinition| user.password.is_some() || user.password_hash.is_some();
    definitions.users.iter().any(of)
}

/// Writes a file with something in it that is its user's alone. One that is there keeps the
/// permissions of its group; others lose theirs.
///
/// # Errors
/// If the system refuses.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path)?;
    let metadata = file.metadata()?;
    let mode = metadata.mode() & 0o7777;
    if metadata.is_file() && mode & OF_OTHERS != 0 {
        file.set_permissions(fs::Permissions::from_mode(mode & !OF_OTHERS))?;
    }
    file.write_all(text.as_bytes())
}

/// The permissions of what is there; what is not exposes nothing.
fn mode(path: &Path) -> Option<u32> {
    Some(fs::metadata(path).ok()?.mode() & 0o777)
}

/// The permissions of a file that others can read.
fn mode_for_others(file: &Path) -> Option<u32> {
    mode(file).filter(|mode| mode & READ_BY_OTHERS != 0)
}

fn keys(config: &Config) -> impl Iterator<Item = &Path> {
    let listeners = &config.listeners;
    let of_http = [&listeners.https, &listeners.metrics_tls];
    let of_http = of_http.into_iter().flatten().map(|(_, tls)| tls);
    let all = config.tls.iter().chain(of_http);
    let of_links = config.cluster.as_ref();
    let of_links = of_links.and_then(|cluster| cluster.tls.as_ref());
    all.map(|tls| tls.key.as_path())
        .chain(of_links.map(|tls| tls.key.as_path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_password_hashes_is_written_for_its_user_alone() {
        let name = format!("leveret-private-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_file(&path);
        write_private(&path, "long enough").expect("written");
        assert_eq!(mode(&path).map(|mode| mode & 0o077), Some(0));
        // Who has let a group in wants that; everybody is let in by what made an older file.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("its own");
        write_private(&path, "short").expect("written");
        assert_eq!(mode(&path), Some(0o640));
        assert_eq!(fs::read_to_string(&path).expect("text"), "short");
        fs::remove_file(path).expect("its own");
    }
}
