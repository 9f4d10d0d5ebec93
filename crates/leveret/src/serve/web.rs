//! What is served over HTTP: where, with which certificates, and to whom on this machine.

use crate::cli::node_file::CONTROL_SOCKET;
use crate::config::{Config, Tls as TlsConfig};
use leveret_management::{App, Bound, Endpoint, ListenAddress, Sampling, Server, Service, Tls};
use leveret_shell::tls::TlsFiles;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of the longest name that the kernel takes for a socket file.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The HTTP server, and what its certificates are read from.
pub struct Web {
    server: Server,
    tls: Vec<(TlsFiles, Tls)>,
    /// Takes samples for as long as it is there; none where the configuration wants none.
    _sampling: Option<Sampling>,
}

impl Web {
    /// Starts what the configuration asks for.
    ///
    /// # Errors
    /// One line: which certificates or which address cannot be used.
    pub fn start(app: Arc<App>, config: &Config) -> Result<Self, String> {
        let listeners = &config.listeners;
        let mut tls = Vec::new();
        let mut endpoints = Vec::new();
        let plain = [
            (Service::Api, listeners.http),
            (Service::Metrics, listeners.metrics),
        ];
        for (service, address) in plain {
            endpoints.extend(address.map(|address| Endpoint::plain(service, address)));
        }
        let with_tls = [
            (Service::Api, &listeners.https),
            (Service::Metrics, &listeners.metrics_tls),
        ];
        for (service, listener) in with_tls {
            let Some((address, files)) = listener else {
                continue;
            };
            let files = tls_files(files);
            let settings = Tls::new(files.load().map_err(|error| error.to_string())?);
            let address = ListenAddress::Tcp(*address, Some(settings.clone()));
            endpoints.push(Endpoint { service, address });
            tls.push((files, settings));
        }
        endpoints.extend(control_socket(&config.folders.root));
        let sampling = match config.samples {
            true => Some(Sampling::start(&app).map_err(|error| error.to_string())?),
            false => None,
        };
        let server = Server::start(app, &endpoints).map_err(|error| error.to_string())?;
        Ok(Self {
            server,
            tls,
            _sampling: sampling,
        })
    }

    /// What is listened on.
    #[must_use]
    pub fn bound(&self) -> &[Bound] {
        self.server.bound()
    }

    /// Where a service is to be had without TLS, if it is.
    #[must_use]
    pub fn plain_address(&self, service: Service) -> Option<SocketAddr> {
        self.server.plain_address(service)
    }

    /// Reads the certificates again: new connections get the new ones.
    ///
    /// # Errors
    /// One line: what is wrong with the files. Those listeners that come before keep the new ones.
    pub fn reload_certificates(&self) -> Result<(), String> {
        for (files, settings) in &self.tls {
            settings.replace(files.load().map_err(|error| error.to_string())?);
        }
        Ok(())
    }
}

/// The socket file of the command line for a node in this folder.
fn socket_path(root: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(root).ok()?.join(CONTROL_SOCKET);
    (path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX).then_some(path)
}

/// Whether the command line has a socket file there: its name may be too long for the kernel.
#[must_use]
pub fn can_have_socket_file(root: &Path) -> bool {
    socket_path(root).is_some()
}

/// The socket file of the command line, if there can be one.
fn control_socket(root: &Path) -> Option<Endpoint> {
    let Some(path) = socket_path(root) else {
        tracing::warn!(
            folder = %root.display(),
            "no socket file for the command line, as its name would be longer than the system \
             takes: its token is taken at the HTTP API on loopback instead",
        );
        return None;
    };
    Some(Endpoint {
        service: Service::Api,
        address: ListenAddress::File(path),
    })
}

/// Certificates as the shell reads them.
#[must_use]
pub fn tls_files(tls: &TlsConfig) -> TlsFiles {
    TlsFiles {
        certificate: tls.certificate.clone(),
        key: tls.key.clone(),
        authorities: tls.client_authorities.clone(),
        verify_peer: tls.client_authorities.is_some(),
        require_peer_certificate: tls.client_certificate_required,
        depth: tls.depth,
        versions: tls
            .versions
            .iter()
            .map(|version| version.name().to_owned())
            .collect(),
    }
}
