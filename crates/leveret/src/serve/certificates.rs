//! When the certificates that are in use run out.

use crate::config::{Config, Tls};
use std::path::{Path, PathBuf};
use x509_parser::pem::Pem;

/// The first expiry in each file of certificates that a listener uses, in seconds since the Unix
/// epoch. A file that cannot be read, or holds what is no certificate, counts as run out: new
/// connections would fail after the next reload.
pub fn expiries(config: &Config) -> Vec<(PathBuf, u64)> {
    let listeners = &config.listeners;
    let of_http = [&listeners.https, &listeners.metrics_tls];
    let of_http = of_http.into_iter().flatten().map(|(_, tls)| tls);
    let mut files: Vec<&Path> = config
        .tls
        .iter()
        .chain(of_http)
        .flat_map(files_of)
        .collect();
    let of_links = config.cluster.as_ref();
    let of_links = of_links.and_then(|cluster| cluster.tls.as_ref());
    files.extend(
        of_links
            .into_iter()
            .flat_map(|tls| [&tls.certificate, &tls.authorities].map(PathBuf::as_path)),
    );
    files.sort_unstable();
    files.dedup();
    files
        .into_iter()
        .map(|file| (file.to_owned(), first_expiry(file).unwrap_or(0)))
        .collect()
}

fn files_of(tls: &Tls) -> impl Iterator<Item = &Path> {
    let authorities = tls.client_authorities.iter();
    std::iter::once(&tls.certificate)
        .chain(authorities)
        .map(PathBuf::as_path)
}

fn first_expiry(file: &Path) -> Option<u64> {
    let bytes = std::fs::read(file).ok()?;
    let expiry = |pem: Result<Pem, _>| {
        let pem = pem.ok()?;
        let certificate = pem.parse_x509().ok()?;
        let seconds = certificate.validity().not_after.timestamp();
        Some(u64::try_from(seconds).unwrap_or(0))
    };
    let expiries: Option<Vec<u64>> = Pem::iter_from_buffer(&bytes).map(expiry).collect();
    expiries?.into_iter().min()
}
