//! The HTTP server: one thread that waits for sockets, a few that do the work, and a bound on
//! everything.
//!
//! Invariant: no handler runs on the thread that waits for sockets.

use crate::app::App;
use crate::metrics;
use crate::reply::{ApiError, Reply};
use crate::route;
use crate::routes::ROUTES;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use leveret_types::limits::{HTTP_BODY_BYTES_MAX, HTTP_DEFINITIONS_BYTES_MAX};
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// Connections that are served at once; further ones wait in the kernel.
const CONNECTIONS_MAX: usize = 1_024;
/// Threads that do the work.
const WORKERS: usize = 8;
/// Bytes of a request's line and headers.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Within this a request's headers must have come.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Within this a body must have come, and a second more for each [`BODY_BYTES_PER_SECOND`] of its
/// bound.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The slowest body that is waited for.
const BODY_BYTES_PER_SECOND: u64 = 1_024;
/// The longest that any body may take.
const BODY_TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// What a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    Api,
    Metrics,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    http: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Binds the listeners and serves them until the server is dropped.
    ///
    /// # Errors
    /// If a listener cannot be bound, or the system has no thread left.
    pub fn start(
        app: App,
        http: Option<SocketAddr>,
        metrics: Option<SocketAddr>,
    ) -> io::Result<Self> {
        let bind = |address: Option<SocketAddr>, service| {
            let Some(address) = address else {
                return Ok(None);
            };
            let listener = TcpListener::bind(address).map_err(|error| {
                io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
            })?;
            listener.set_nonblocking(true)?;
            let bound = listener.local_addr()?;
            Ok::<_, io::Error>(Some((listener, bound, service)))
        };
        let http = bind(http, Service::Api)?;
        let metrics = bind(metrics, Service::Metrics)?;
        let address = |l: &Option<(TcpListener, SocketAddr, Service)>| l.as_ref().map(|l| l.1);
        let (stop, stopped) = oneshot::channel();
        let mut server = Self {
            http: address(&http),
            metrics: address(&metrics),
            stop: Some(stop),
            thread: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(WORKERS)
            .thread_keep_alive(Duration::from_secs(10))
            .thread_name("http-worker")
            .build()?;
        let app = Arc::new(app);
        let listeners: Vec<_> = http.into_iter().chain(metrics).collect();
        let thread = std::thread::Builder::new().name("http".to_owned());
        server.thread = Some(thread.spawn(move || {
            runtime.block_on(async {
                for (listener, _, service) in listeners {
                    tokio::spawn(accept(listener, service, Arc::clone(&app)));
                }
                // An error is a sender that was dropped, which means the same.
                let _ = stopped.await;
            });
            runtime.shutdown_timeout(Duration::from_secs(1));
        })?);
        Ok(server)
    }

    /// Where the API is served.
    #[must_use]
    pub const fn http_address(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Where the metrics are served.
    #[must_use]
    pub const fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics
    }
}

impl Drop for Server {
    /// Stops accepting, ends requests under way within a second.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported where it happened.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, service: Service, app: Arc<App>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        // The listener is bound and non-blocking: only a runtime without a driver refuses it.
        Err(error) => unreachable!("a bound listener was refused: {error}"),
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let Ok((stream, peer)) = listener.accept().await else {
            // No descriptor left, or the peer has gone: a pause keeps the loop from spinning.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let app = Arc::clone(&app);
                async move { Ok::<_, Infallible>(answer(app, service, peer, request).await) }
            });
            // What ends a connection early is the client's affair.
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), service)
                .await;
            drop(place);
        });
    }
}

type HttpResponse = Response<Full<Bytes>>;

async fn answer(
    app: Arc<App>,
    service: Service,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> HttpResponse {
    let result = match service {
        Service::Api => api(app, peer, request).await,
        Service::Metrics => scrape(app, request).await,
    };
    respond(result)
}

/// Runs blocking work on a worker; a panic there ends the process in a release build, and is a
/// failure in a test.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(_) => Err(ApiError::Failed("the node is stopping".to_owned())),
    }
}

async fn api(
    app: Arc<App>,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Result<Reply, ApiError> {
    let (head, body) = request.into_parts();
    let found = route::find(ROUTES, head.method.as_str(), head.uri.path())?;
    let query = crate::input::Query::parse(head.uri.query().unwrap_or_default())?;
    let text = |name| {
        let value = head.headers.get(name).and_then(|v| v.to_str().ok());
        value.map(str::to_owned)
    };
    let authorization = text("authorization");
    let reason = text("x-reason");
    // Nothing of a body is read before its sender may send one.
    let (who, found) = {
        let app = Arc::clone(&app);
        blocking(move || {
            let who = app.identify(authorization.as_deref(), peer.ip())?;
            app.admit(&who, &found)?;
            Ok((who, found))
        })
        .await?
    };
    let is_definitions = head.uri.path().starts_with("/api/definitions")
        || head.uri.path().starts_with("/api/all-configuration");
    let most = if is_definitions {
        HTTP_DEFINITIONS_BYTES_MAX
    } else {
        HTTP_BODY_BYTES_MAX
    };
    let bytes = read(body, most).await?;
    blocking(move || {
        let call = route::Call {
            app: &app,
            who: &who,
            params: found.params,
            query,
            bytes: &bytes,
            reason,
        };
        (found.method.handler)(&call)
    })
    .await
}

/// Reads a body of `most` bytes at most, at the least speed that is borne.
async fn read(body: Incoming, most: usize) -> Result<Bytes, ApiError> {
    if body.size_hint().lower() > most as u64 {
        return Err(ApiError::TooLarge(most));
    }
    let expected = body.size_hint().exact().unwrap_or(most as u64);
    let time = BODY_TIMEOUT + Duration::from_secs(expected / BODY_BYTES_PER_SECOND);
    let reading = Limited::new(body, most).collect();
    match tokio::time::timeout(time.min(BODY_TIMEOUT_MAX), reading).await {
        Err(_) => Err(ApiError::TooSlow),
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(ApiError::TooLarge(most))
        }
        Ok(Err(_)) => Err(ApiError::BadRequest("the body is broken".to_owned())),
    }
}

async fn scrape(app: Arc<App>, request: Request<Incoming>) -> Result<Reply, ApiError> {
    let method = request.method().as_str();
    if method != "GET" && method != "HEAD" {
        return Err(ApiError::MethodNotAllowed("GET".to_owned()));
    }
    let path = request.uri().path().trim_end_matches('/').to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    blocking(move || {
        let text = metrics::page(&app, &path, &query)?;
        Ok(Reply::Text(
            "text/plain; version=0.0.4; charset=utf-8",
            text,
        ))
    })
    .await
}

fn respond(result: Result<Reply, ApiError>) -> HttpResponse {
    const JSON: &str = "application/json";
    let (status, kind, body, extra) = match result {
        Ok(Reply::Json(json)) => (200, JSON, json.to_string(), None),
        Ok(Reply::Text(kind, text)) => (200, kind, text, None),
        Ok(Reply::Created(place)) => (
            201,
            JSON,
            String::new(),
            place.map(|p| (header::LOCATION, p)),
        ),
        Ok(Reply::Done) => (204, JSON, String::new(), None),
        Ok(Reply::Unwell(json)) => (503, JSON, json.to_string(), None),
        Err(error) => {
            let extra = match &error {
                ApiError::NotAuthorised(_) => Some((
                    header::WWW_AUTHENTICATE,
                    "Basic realm=\"RabbitMQ Management\"".to_owned(),
                )),
                ApiError::MethodNotAllowed(methods) => Some((header::ALLOW, methods.clone())),
                _ => None,
            };
            (error.status(), JSON, error.json().to_string(), extra)
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-cache"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'self'; frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            header::VARY,
            "accept, accept-encoding, authorization, origin",
        ),
    ];
    for (name, value) in fixed {
        if status != 204 || name != header::CONTENT_TYPE {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    // What a client sent comes back percent-encoded or not at all: it cannot break a header.
    if let Some((name, value)) = extra
        && let Ok(value) = HeaderValue::from_str(&value)
    {
        headers.insert(name, value);
    }
    response
}
