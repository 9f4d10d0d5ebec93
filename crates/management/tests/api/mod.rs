//! A faked node's HTTP API on loopback, and clients that ask it.

use crate::client::{Answer, basic, exchange};
use crate::fake::Fake;
use leveret_management::{App, Endpoint, Server, Service};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;

pub struct Api {
    pub node: Arc<Fake>,
    pub app: Arc<App>,
    pub server: Server,
}

/// The API and the metrics of a new node.
pub fn start() -> Api {
    Api::of(Fake::default(), |app| app)
}

impl Api {
    /// The API and the metrics of this node, with an application changed as a test wants it.
    pub fn of(node: Fake, change: impl FnOnce(App) -> App) -> Self {
        let node = Arc::new(node);
        let any = "127.0.0.1:0".parse().expect("an address");
        let endpoints =
            [Service::Api, Service::Metrics].map(|service| Endpoint::plain(service, any));
        let app = App::new(Arc::clone(&node) as _, Some("token".to_owned()), false);
        let app = Arc::new(change(app));
        let server = Server::start(Arc::clone(&app), &endpoints).expect("ports on loopback");
        Self { node, app, server }
    }

    pub fn address(&self, service: Service) -> SocketAddr {
        self.server.plain_address(service).expect("it is served")
    }

    pub fn send(&self, authorization: &str, method: &str, path: &str, body: &str) -> Answer {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: {authorization}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        exchange(self.address(Service::Api), request.as_bytes())
    }

    /// Asks as a user whose password is its name.
    pub fn by(&self, user: &str, method: &str, path: &str, body: &str) -> Answer {
        self.send(&basic(user, user), method, path, body)
    }

    pub fn admin(&self, method: &str, path: &str, body: &str) -> Answer {
        self.by("administrator", method, path, body)
    }

    /// What the administrator is answered, which must be no refusal.
    pub fn get(&self, path: &str) -> Value {
        let answer = self.admin("GET", path, "");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let kind = "content-type: application/json";
        assert!(answer.head.contains(kind), "{path}: {answer:?}");
        answer.json()
    }

    pub fn metrics(&self, path: &str) -> Answer {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        exchange(self.address(Service::Metrics), request.as_bytes())
    }

    /// What the node was asked to do since this was last called.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.node.asked.lock().expect("log"))
    }
}
