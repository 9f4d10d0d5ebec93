//! Who else on this machine can read what a node keeps.

use crate::config::{Config, Loaded};
use rustix::fs::Mode;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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
    let typed = loaded.secret_files.iter();
    let files = files.chain(typed.map(|file| (file.as_path(), "a password or secret in")));
    let files = files.filter_map(|(file, what)| {
        let mode = mode(file).filter(|mode| mode & READ_BY_OTHERS != 0)?;
        Some(format!(
            "other users of this machine can read {what} {} (mode {mode:03o}): chmod o= {}",
            file.display(),
            file.display(),
        ))
    });
    folders.chain(files).collect()
}

/// The permissions of what is there; what is not exposes nothing.
fn mode(path: &Path) -> Option<u32> {
    Some(fs::metadata(path).ok()?.mode() & 0o777)
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
