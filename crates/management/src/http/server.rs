//! The HTTP server: one thread that waits for sockets, a few that do the work, and a bound on
//! everything.
//!
//! Invariant: no handler runs on the thread that waits for sockets.

use crate::access::Who;
use crate::app::{App, Claim};
use crate::changes;
use crate::cluster_lists::Order;
use crate::directory::User;
use crate::http::browser::Sender;
use crate::http::chunked_body::{Content, Pieces};
use crate::http::connection_limiter::{ConnectionLimiter, ConnectionPermit, UserShare};
use crate::http::handshakes::HandshakeThreads;
use crate::http::input::Query;
use crate::http::listeners::{
    self, Bound, Endpoint, ListenAddress, Listener, Open, Service, Stream, Way,
};
use crate::http::read_barriers;
use crate::http::reply::{ApiError, Reply, Unfinished};
use crate::http::router;
use crate::http::slow_reader::Paced;
use crate::http::workers::{Errand, Place, THREADS_MAX, Workers};
use crate::live::stream::Streams;
use crate::live::subject::{LIVE_PATH, Wanted};
use crate::metrics;
use crate::overview;
use crate::priority::let_clients_go_first;
use crate::routes::ROUTES;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use leveret_auth::Origin;
use leveret_types::limits::{
    HTTP_BODY_BYTES_MAX, HTTP_DEFINITIONS_BYTES_MAX, HTTP_FIRST_BYTE_MS_MAX, HTTP_HEAD_BYTES_MAX,
    HTTP_LOGIN_BYTES_MAX, TLS_HANDSHAKE_MS_MAX,
};
use serde_json::Value;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

/// Where a form logs in.
const LOGIN_PATH: &str = "/api/login";
/// What is read of a head that is too large, so that it can be refused.
const HEAD_BYTES_READ: usize = HTTP_HEAD_BYTES_MAX + 8 * 1024;
/// Within this a request's headers must have come.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// A running server.
#[derive(Debug)]
pub struct Server {
    bound: Vec<Bound>,
    files: Vec<PathBuf>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Binds the endpoints and serves them until the server is dropped.
    ///
    /// # Errors
    /// If an endpoint cannot be bound, or the system has no thread left.
    pub fn start(app: impl Into<Arc<App>>, endpoints: &[Endpoint]) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let mut server = Self {
            bound: Vec::new(),
            files: Vec::new(),
            stop: Some(stop),
            thread: None,
        };
        let mut listeners = Vec::new();
        for endpoint in endpoints {
            let (listener, bound) = listeners::bind(endpoint)?;
            listeners.push((listener, endpoint.service));
            server.bound.extend(bound);
            if let ListenAddress::File(path) = &endpoint.address {
                server.files.push(path.clone());
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(THREADS_MAX)
            .thread_keep_alive(Duration::from_secs(10))
            .thread_name("http-worker")
            .on_thread_start(let_clients_go_first)
            .build()?;
        let app = app.into();
        let speaks_tls = server.bound.iter().any(|bound| bound.tls);
        let handshakes = match speaks_tls {
            true => Some(Arc::new(HandshakeThreads::start()?)),
            false => None,
        };
        let thread = std::thread::Builder::new().name("http".to_owned());
        server.thread = Some(thread.spawn(move || {
            runtime.block_on(async {
                let streams = Streams::new();
                for (listener, service) in listeners {
                    let shared = (Arc::clone(&app), Arc::clone(&streams), handshakes.clone());
                    tokio::spawn(accept(listener, service, shared));
                }
                // An error is a sender that was dropped, which means the same.
                let _ = stopped.await;
            });
            runtime.shutdown_timeout(Duration::from_secs(1));
        })?);
        Ok(server)
    }

    /// The addresses that are listened on, in the order of their endpoints.
    #[must_use]
    pub fn bound(&self) -> &[Bound] {
        &self.bound
    }

    /// Where a service is to be had without TLS, if it is.
    #[must_use]
    pub fn plain_address(&self, service: Service) -> Option<SocketAddr> {
        let mut bound = self.bound.iter();
        let found = bound.find(|bound| bound.service == service && !bound.tls);
        found.map(|bound| bound.address)
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
        for file in &self.files {
            // What stays is replaced at the next start.
            let _ = std::fs::remove_file(file);
        }
    }
}

async fn accept(
    listener: Listener,
    service: Service,
    (app, streams, handshakes): (Arc<App>, Arc<Streams>, Option<Arc<HandshakeThreads>>),
) {
    let listener = Open::new(listener);
    let limiter = ConnectionLimiter::new();
    loop {
        let Ok((stream, peer, way)) = listener.next().await else {
            // No descriptor left, or the peer has gone: a pause keeps the loop from spinning.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (permit, leave) = limiter.admit(peer);
        let client = Client {
            app: Arc::clone(&app),
            streams: Arc::clone(&streams),
            service,
            peer,
            way,
            permit,
        };
        let handshakes = handshakes.clone();
        tokio::spawn(until(leave, client.begin(stream, handshakes)));
    }
}

/// Goes on until it is done, or its permit must be left.
async fn until(leave: oneshot::Receiver<()>, work: impl Future<Output = ()>) {
    let (mut leave, mut work) = (pin!(leave), pin!(work));
    let either = poll_fn(|context| match leave.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending => work.as_mut().poll(context),
    });
    either.await;
}

/// A connection, and what its requests share.
#[derive(Clone)]
struct Client {
    app: Arc<App>,
    streams: Arc<Streams>,
    service: Service,
    peer: IpAddr,
    way: Way,
    permit: Arc<ConnectionPermit>,
}

impl Client {
    /// Serves a connection that brings something before long.
    async fn begin(self, stream: Stream, threads: Option<Arc<HandshakeThreads>>) {
        let first_byte = Duration::from_millis(HTTP_FIRST_BYTE_MS_MAX);
        if !matches!(
            tokio::time::timeout(first_byte, stream.readable()).await,
            Ok(Ok(()))
        ) {
            return;
        }
        match stream {
            Stream::Tcp(stream) => serve(self, stream).await,
            Stream::File(stream) => serve(self, stream).await,
            Stream::Tls(stream, acceptor) => {
                let time = Duration::from_millis(TLS_HANDSHAKE_MS_MAX);
                let origin = Origin::new(self.peer, self.app.node().is_familiar(self.peer));
                let handshakes = threads.as_deref().map(|threads| threads.of(origin));
                let Some(handshakes) = handshakes.map(Arc::clone) else {
                    return;
                };
                let handshake = handshakes.result_of(origin, acceptor.accept(stream));
                let handshake = tokio::time::timeout(time, handshake);
                // A handshake that fails is the client's affair.
                if let Ok(Some(Ok(stream))) = handshake.await {
                    serve(self, stream).await;
                }
            }
        }
    }
}

/// Answers the requests of one connection until it ends.
async fn serve<S>(client: Client, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let stream = Paced::new(stream, Arc::clone(&client.permit));
    let handler = service_fn(move |request| {
        let client = client.clone();
        async move { Ok::<_, Infallible>(answer(client, request).await) }
    });
    // What ends a connection early is the client's affair.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_READ)
        .serve_connection(TokioIo::new(stream), handler)
        .await;
}

type HttpResponse = Response<Content>;

/// What a request comes to.
enum Answered {
    /// An answer, made as far as its first piece.
    Whole(HttpResponse),
    /// Events, from now on.
    Live(Wanted),
}

/// A turn of the work for a request is over.
enum Turned {
    /// There is more to do.
    Unfinished(Unfinished),
    /// That was the last one.
    Answered(Answered),
}

/// How an answer is made of what the work has found.
#[derive(Clone)]
struct Made {
    /// What the client has already, by entity tags.
    known: Option<String>,
    encoding: Encoding,
}

impl Made {
    /// Must be called where work may take its time.
    fn of(&self, reply: Reply) -> Turned {
        match reply.unless_known(self.known.as_deref()) {
            Reply::Unfinished(rest) => Turned::Unfinished(rest),
            Reply::Live(wanted) => Turned::Answered(Answered::Live(wanted)),
            reply => Turned::Answered(Answered::Whole(respond(Ok(reply), self.encoding))),
        }
    }
}

async fn answer(client: Client, request: Request<Incoming>) -> HttpResponse {
    let Client {
        app,
        streams,
        service,
        peer,
        way,
        permit,
    } = client;
    let request = without_prefix(request, &app.prefix);
    let sender = Sender {
        method: request.method(),
        path: request.uri().path(),
        headers: request.headers(),
        is_local: way != Way::Network,
    };
    let asks_user = !sender.is_script();
    let encoding = Encoding::of(sender.headers);
    // What a browser must be told of pages of other origins.
    let (origins, headers) = (Arc::clone(&app), sender.headers.clone());
    let is_question = sender.method == Method::OPTIONS;
    let checked = check_head(&request).and_then(|()| sender.check(&app.hosts, &app.origins));
    if checked.is_ok()
        && service == Service::Api
        && let Some(file) = crate::ui::answer(
            sender.method.as_str(),
            sender.path,
            sender.headers,
            encoding == Encoding::Gzip,
        )
    {
        return file;
    }
    // Whoever may scrape need not be known: they leave threads to those who have to be.
    let turn = match service {
        Service::Metrics => Arc::clone(&app.scrapes).acquire_owned().await.ok(),
        Service::Api => None,
    };
    let answered = match (checked, service) {
        (Err(error), _) => Err(error),
        (Ok(()), Service::Api) => {
            match api(Arc::clone(&app), (peer, way), request, &permit, encoding).await {
                Ok(Answered::Live(wanted)) => {
                    let events = streams.begin(&app, &wanted, (peer, &permit));
                    events.map(|events| respond(Ok(events), Encoding::Plain))
                }
                Ok(Answered::Whole(response)) => Ok(response),
                Err(error) => Err(error),
            }
        }
        (Ok(()), Service::Metrics) => scrape(app, request, encoding).await,
    };
    drop(turn);
    let mut response = answered.unwrap_or_else(|error| respond(Err(error), Encoding::Plain));
    let methods = response.headers().get(header::ALLOW);
    let methods = methods.filter(|_| is_question).cloned();
    for (name, value) in origins.origins.headers(&headers, methods.as_ref()) {
        response.headers_mut().insert(name, value);
    }
    if !asks_user {
        response.headers_mut().remove(header::WWW_AUTHENTICATE);
    }
    match permit.hold(response.body().bytes()) {
        Some(held) => response.map(|content| content.holding(held)),
        None => respond(Err(ApiError::Crowded), Encoding::Plain),
    }
}

/// The request as it would be without the prefix of a proxy's, if it has that.
fn without_prefix(request: Request<Incoming>, prefix: &str) -> Request<Incoming> {
    let rest = request.uri().path().strip_prefix(prefix);
    let Some(path) =
        rest.filter(|rest| !prefix.is_empty() && (rest.is_empty() || rest.starts_with('/')))
    else {
        return request;
    };
    let path = if path.is_empty() { "/" } else { path };
    let query = request.uri().query().map(|query| format!("?{query}"));
    let rest = format!("{path}{}", query.unwrap_or_default());
    // A part of an address is one: if not, nothing is there.
    let Ok(uri) = rest.parse() else {
        return request;
    };
    let (mut head, body) = request.into_parts();
    head.uri = uri;
    Request::from_parts(head, body)
}

/// How the body of an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Plain,
    Gzip,
}

impl Encoding {
    /// What a client takes.
    fn of(headers: &HeaderMap) -> Self {
        let accepted = headers.get(header::ACCEPT_ENCODING);
        let accepted = accepted
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let takes_gzip = |coding: &str| {
            let mut parts = coding.split(';').map(str::trim);
            let is_gzip = parts.next() == Some("gzip");
            is_gzip && !parts.any(|part| part == "q=0" || part == "q=0.0")
        };
        match accepted.split(',').map(str::trim).any(takes_gzip) {
            true => Self::Gzip,
            false => Self::Plain,
        }
    }
}

/// When who found no room for a body may find some.
const RETRY_SECONDS: &str = "5";

/// Answers that are shorter are not worth it.
const GZIP_BYTES_MIN: usize = 1_024;

/// Refuses a line and headers that are too large together, as they usually stand.
fn check_head(request: &Request<Incoming>) -> Result<(), ApiError> {
    const BETWEEN: usize = "  HTTP/1.1\r\n\r\n".len();
    let line = request.method().as_str().len() + request.uri().to_string().len() + BETWEEN;
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    match line + headers.sum::<usize>() > HTTP_HEAD_BYTES_MAX {
        true => Err(ApiError::HeadTooLarge),
        false => Ok(()),
    }
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
    (peer, way): (IpAddr, Way),
    request: Request<Incoming>,
    permit: &ConnectionPermit,
    encoding: Encoding,
) -> Result<Answered, ApiError> {
    let (head, body) = request.into_parts();
    let found = match router::find(ROUTES, head.method.as_str(), head.uri.path()) {
        // Which methods there are is no secret.
        Err(ApiError::MethodNotAllowed(methods)) if head.method == Method::OPTIONS => {
            return Ok(Answered::Whole(respond(
                Ok(Reply::Methods(methods)),
                encoding,
            )));
        }
        found => found?,
    };
    check_accept(&head.headers, &found)?;
    if way != Way::File {
        app.rate_limit.count_address(peer)?;
    }
    let query = Query::parse(head.uri.query().unwrap_or_default())?;
    let text = |name| {
        let value = head.headers.get(name).and_then(|v| v.to_str().ok());
        value.map(str::to_owned)
    };
    let authorization = text("authorization");
    let (reason, content_type, known) = (
        text("x-reason"),
        text("content-type"),
        text("if-none-match"),
    );
    // Nothing of a body is read before its sender may send one.
    let delay = app.failure_delay;
    let admitted = match app.claim(authorization.as_deref(), way) {
        Ok(Claim::Proven(who)) => Ok(who),
        Ok(Claim::Password { user, password }) => log_in(&app, user, password, peer).await,
        Err(error) => Err(error),
    };
    let who = slow_to_refuse(admitted, delay).await?;
    let (who, found) = admit(&app, who, found).await?;
    let most = body_bytes_max(head.uri.path(), &who);
    let bytes = permit.bodies().read(body, most, (who.name(), peer)).await?;
    // Who logs in by a form is who the form says, if the password is right.
    let who = match head.uri.path().trim_end_matches('/') {
        LOGIN_PATH if head.method == Method::POST => {
            let kind = content_type.as_deref().unwrap_or_default();
            let (user, password) = overview::login_form(&bytes, kind)?;
            let logged_in = log_in(&app, user, password, peer).await;
            slow_to_refuse(logged_in, delay).await?
        }
        _ => who,
    };
    permit.set_waiting(true);
    let order = Order::of(&query, None);
    let is_ordered = order.field.is_some() && !order.is_by_name();
    let errand = Errand::of(&head.method);
    let asked = Asked {
        app,
        who,
        found,
        from: peer,
        path: head.uri.path().to_owned(),
        query,
        bytes,
        content_type: content_type.unwrap_or_default(),
        reason,
    };
    let made = Made { known, encoding };
    let answered = carry_out(permit, Arc::new(asked), errand, (is_ordered, made)).await;
    permit.set_waiting(false);
    slow_to_refuse(answered, delay).await
}

/// A request that was let in.
struct Asked<B> {
    app: Arc<App>,
    who: Who,
    found: router::Found,
    from: IpAddr,
    path: String,
    query: Query,
    bytes: B,
    content_type: String,
    reason: Option<String>,
}

impl<B: Deref<Target = [u8]>> Asked<B> {
    /// Must be called where work may take its time.
    fn answer(&self, is_last: bool) -> Result<Reply, ApiError> {
        let call = router::Call {
            app: &self.app,
            who: &self.who,
            of: (self.found.method.name, self.found.pattern),
            from: self.from,
            params: self.found.params.clone(),
            query: self.query.clone(),
            bytes: &self.bytes,
            content_type: self.content_type.clone(),
            reason: self.reason.clone(),
        };
        changes::answer(&call, &self.found, &self.path, is_last)
    }
}

/// Lets a request in, or not. One about a virtual host that this node does not know, or in which
/// the user may do nothing, is looked at once more behind a read barrier.
async fn admit(
    app: &Arc<App>,
    who: Who,
    found: router::Found,
) -> Result<(Who, router::Found), ApiError> {
    let look = |who: Who, found: router::Found, is_first: bool| {
        let app = Arc::clone(app);
        blocking(move || {
            if is_first && let Who::User { name, .. } = &who {
                app.rate_limit.count_user(name)?;
            }
            let admitted = app.admit(&who, &found);
            Ok((who, found, admitted))
        })
    };
    let (mut who, mut found, mut admitted) = look(who, found, true).await?;
    if admitted.is_err() && found.vhost.is_some() && read_barriers::pass(app).await {
        (who, found, admitted) = look(who, found, false).await?;
    }
    admitted.map(|()| (who, found))
}

/// Carries out a request; once more, behind a read barrier, where it names what is not there.
async fn carry_out<B>(
    permit: &ConnectionPermit,
    asked: Arc<Asked<B>>,
    errand: Errand,
    (is_ordered, made): (bool, Made),
) -> Result<Answered, ApiError>
where
    B: Deref<Target = [u8]> + Send + Sync + 'static,
{
    let looks_again = asked.app.node().is_clustered();
    let workers = (asked.app.workers.clone(), errand);
    let whole = Arc::clone(&asked);
    let who = (permit, whole.who.name());
    let first = Arc::clone(&asked);
    let first = move || first.answer(!looks_again);
    let answered = work(who, workers.clone(), (is_ordered, made.clone()), first).await;
    if !looks_again || !matches!(&answered, Err(error) if error.is_missing()) {
        return answered;
    }
    // Whether it passes or not: the first attempt was kept nowhere.
    read_barriers::pass(&asked.app).await;
    let again = move || asked.answer(true);
    work(who, workers, (is_ordered, made), again).await
}

/// Carries out a request, turn by turn. Others have a worker between two turns. The answer is made
/// in the last one: what was found does not wait for another, in nobody's count.
async fn work(
    (permit, user): (&ConnectionPermit, &str),
    (workers, errand): (Workers, Errand),
    (is_ordered, made): (bool, Made),
    first: impl FnOnce() -> Result<Reply, ApiError> + Send + 'static,
) -> Result<Answered, ApiError> {
    let share = permit.share_of(user);
    let _order = match is_ordered {
        true => Some(permit.order(&share).await),
        false => None,
    };
    let place = worker(&workers, &share, errand).await;
    let mut turned = turn(place, made.clone(), first).await?;
    loop {
        let rest = match turned {
            Turned::Unfinished(rest) => rest,
            Turned::Answered(answered) => return Ok(answered),
        };
        let place = worker(&workers, &share, errand).await;
        turned = turn(place, made.clone(), move || rest.go_on()).await?;
    }
}

/// A worker, of those that a user and the address may have, and of all.
type Worker = ((Place, Place), Place);

/// Waits for a worker.
async fn worker(workers: &Workers, share: &UserShare, errand: Errand) -> Worker {
    let of_share = share.worker(errand).await;
    (of_share, workers.place(errand).await)
}

/// Works as long as it has this worker.
async fn turn(
    worker: Worker,
    made: Made,
    work: impl FnOnce() -> Result<Reply, ApiError> + Send + 'static,
) -> Result<Turned, ApiError> {
    blocking(move || {
        // Whoever hangs up meanwhile has it until the work is done.
        let _worker = worker;
        Ok(made.of(work()?))
    })
    .await
}

/// Refuses a client that takes no answer of the kind that the resource has.
fn check_accept(headers: &HeaderMap, found: &router::Found) -> Result<(), ApiError> {
    let kinds: &[&str] = match found.pattern {
        LIVE_PATH => &["text/*", "text/event-stream"],
        _ => &["application/*", "application/json", "application/bert"],
    };
    match found.is_for_people || takes(headers, kinds) {
        true => Ok(()),
        false => Err(ApiError::NotAcceptable),
    }
}

/// Whether a client takes one of these kinds of answers: one that does not say does, and so does
/// one that says in a way of its own.
fn takes(headers: &HeaderMap, kinds: &[&str]) -> bool {
    let Some(accept) = headers.get(header::ACCEPT).and_then(|a| a.to_str().ok()) else {
        return true;
    };
    let takes = |range: &str| {
        let kind = range.split(';').next().unwrap_or_default().trim();
        matches!(kind, "" | "*" | "*/*") || kinds.contains(&kind)
    };
    accept.split(',').any(takes)
}

/// Lets a user in whose password is right. In a cluster another node may have been told of the
/// user, or of a new password, a moment ago: one who is unknown is checked behind a read barrier,
/// and one who was refused is checked once more if that has brought another password. So a stranger
/// waits for a barrier in either case, and cannot tell the one from the other by the time.
async fn log_in(
    app: &Arc<App>,
    user: String,
    password: String,
    peer: IpAddr,
) -> Result<Who, ApiError> {
    let claim = Arc::new((user, password));
    if !app.node().is_clustered() {
        return check_login(app, &claim, peer).await;
    }
    let known = record_of(app, &claim).await?;
    if known.is_none() {
        read_barriers::pass(app).await;
        return check_login(app, &claim, peer).await;
    }
    let checked = check_login(app, &claim, peer).await;
    let is_refused = matches!(checked, Err(ApiError::LoginFailed));
    if is_refused && read_barriers::pass(app).await && record_of(app, &claim).await? != known {
        return check_login(app, &claim, peer).await;
    }
    checked
}

/// What this node knows of the user who somebody says to be.
async fn record_of(
    app: &Arc<App>,
    claim: &Arc<(String, String)>,
) -> Result<Option<User>, ApiError> {
    let (app, claim) = (Arc::clone(app), Arc::clone(claim));
    blocking(move || Ok(app.node().user(&claim.0))).await
}

/// Has a password checked. Whoever hangs up meanwhile does not wait any more: the check is then not
/// run.
async fn check_login(
    app: &Arc<App>,
    claim: &Arc<(String, String)>,
    peer: IpAddr,
) -> Result<Who, ApiError> {
    let answered = {
        let (app, claim) = (Arc::clone(app), Arc::clone(claim));
        blocking(move || Ok(app.check_login(&claim.0, &claim.1, peer))).await?
    };
    let verdict = answered.await.ok();
    let (app, claim) = (Arc::clone(app), Arc::clone(claim));
    blocking(move || app.logged_in(&claim.0, verdict)).await
}

/// Lets who failed to log in wait for the answer, so that passwords cannot be tried out quickly.
async fn slow_to_refuse<T>(result: Result<T, ApiError>, delay: Duration) -> Result<T, ApiError> {
    if matches!(result, Err(ApiError::LoginFailed)) {
        tokio::time::sleep(delay).await;
    }
    result
}

/// Bytes of a body at this path.
fn body_bytes_max(path: &str, who: &Who) -> usize {
    let below = |prefix: &str| path.starts_with(prefix);
    if *who == Who::Nobody {
        return HTTP_LOGIN_BYTES_MAX;
    }
    if below("/api/definitions") || below("/api/all-configuration") {
        HTTP_DEFINITIONS_BYTES_MAX
    } else if below("/api/login") {
        HTTP_LOGIN_BYTES_MAX
    } else {
        HTTP_BODY_BYTES_MAX
    }
}

async fn scrape(
    app: Arc<App>,
    request: Request<Incoming>,
    encoding: Encoding,
) -> Result<HttpResponse, ApiError> {
    let method = request.method().as_str();
    if method != "GET" && method != "HEAD" {
        return Err(ApiError::MethodNotAllowed("GET".to_owned()));
    }
    let path = request.uri().path().trim_end_matches('/').to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    blocking(move || {
        let pieces = metrics::page(&app, &path, &query)?;
        const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
        Ok(respond(Ok(Reply::Pieces(TEXT, pieces)), encoding))
    })
    .await
}

/// Makes the answer, but for the pieces of a long one behind its first. Must be called where work
/// may take its time.
fn respond(result: Result<Reply, ApiError>, encoding: Encoding) -> HttpResponse {
    const JSON: &str = "application/json";
    let json = |value: &Value| Content::whole(value.to_string());
    let none = || Content::whole(Bytes::new());
    let (status, kind, body, extra) = match result {
        Ok(Reply::Json(value)) => {
            let text = value.to_string();
            match encoding == Encoding::Gzip && text.len() >= GZIP_BYTES_MIN {
                true => {
                    let gzip = Some((header::CONTENT_ENCODING, "gzip".to_owned()));
                    let texts = Pieces::of_texts(vec![text.into_bytes()]);
                    (200, JSON, texts.gzipped().begin(), gzip)
                }
                false => (200, JSON, Content::whole(text), None),
            }
        }
        Ok(Reply::Pieces(kind, pieces)) if encoding == Encoding::Gzip => {
            let gzip = Some((header::CONTENT_ENCODING, "gzip".to_owned()));
            (200, kind, pieces.gzipped().begin(), gzip)
        }
        Ok(Reply::Pieces(kind, pieces)) => (200, kind, pieces.begin(), None),
        Ok(Reply::Tagged(pieces, tag)) => (200, JSON, pieces.begin(), Some((header::ETAG, tag))),
        Ok(Reply::Unchanged(tag)) => (304, JSON, none(), Some((header::ETAG, tag))),
        Ok(Reply::Created(place)) => (201, JSON, none(), place.map(|p| (header::LOCATION, p))),
        Ok(Reply::Accepted) => (202, JSON, none(), None),
        Ok(Reply::Done) => (204, JSON, none(), None),
        Ok(Reply::Methods(methods)) => (200, JSON, none(), Some((header::ALLOW, methods))),
        Ok(Reply::Moved(place)) => (301, JSON, none(), Some((header::LOCATION, place))),
        Ok(Reply::Html(text)) => (200, "text/html; charset=utf-8", Content::whole(text), None),
        Ok(Reply::Unwell(value)) => (503, JSON, json(&value), None),
        Ok(Reply::Events(events)) => {
            // A proxy that holds answers back until they are whole is told to let these through.
            let flows = Some((
                HeaderName::from_static("x-accel-buffering"),
                "no".to_owned(),
            ));
            (200, "text/event-stream", Content::live(events), flows)
        }
        // The server has begun with the one, and made events of it, and let the other go on.
        Ok(Reply::Live(_) | Reply::Unfinished(_)) => (500, JSON, none(), None),
        Err(error) => {
            let extra = match &error {
                ApiError::NotAuthorised(_) | ApiError::LoginFailed => Some((
                    header::WWW_AUTHENTICATE,
                    "Basic realm=\"RabbitMQ Management\"".to_owned(),
                )),
                ApiError::MethodNotAllowed(methods) => Some((header::ALLOW, methods.clone())),
                ApiError::TooMany(_, seconds) => Some((header::RETRY_AFTER, seconds.to_string())),
                ApiError::NoRoom => Some((header::RETRY_AFTER, RETRY_SECONDS.to_owned())),
                _ => None,
            };
            (error.status(), JSON, json(&error.json()), extra)
        }
    };
    finished((status, kind), body, extra)
}

/// An answer with its headers.
fn finished(
    (status, kind): (u16, &'static str),
    body: Content,
    extra: Option<(HeaderName, String)>,
) -> HttpResponse {
    let mut response = Response::new(body);
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
        if !matches!(status, 204 | 304) || name != header::CONTENT_TYPE {
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
