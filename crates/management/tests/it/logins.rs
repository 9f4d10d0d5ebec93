//! Logins whose password takes long to check, and clients that say nothing, over real HTTP on
//! loopback.

use crate::api::{Api, start};
use crate::client::{Answer, basic, exchange};
use crate::fake::Fake;
use leveret_management::api::LoginVerdict;
use leveret_management::{App, Endpoint, ListenAddress, Server, Service};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Asks as the administrator with this password.
fn who(api: &Api, password: &str) -> Answer {
    api.send(&basic("administrator", password), "GET", "/api/whoami", "")
}

/// Waits until `is_true`; whoever breaks it is told by `what`.
fn eventually(what: &str, is_true: impl Fn() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !is_true() {
        assert!(std::time::Instant::now() < end, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn who_waits_for_the_check_of_a_password_holds_up_nobody_and_may_go() {
    let api = start();
    let address = api.address(Service::Api);
    let form = "username=administrator&password=slow";
    let heads = [
        format!(
            "GET /api/whoami HTTP/1.1\r\nHost: x\r\nAuthorization: {}\r\n\r\n",
            basic("administrator", "slow")
        ),
        format!(
            "POST /api/login HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        ),
    ];
    // More than there are workers.
    let clients: Vec<TcpStream> = (0..40)
        .map(|number| {
            let mut client = TcpStream::connect(address).expect("a connection");
            let head = &heads[number % heads.len()];
            client.write_all(head.as_bytes()).expect("a request");
            client
        })
        .collect();
    let waiting = || api.node.logins.lock().expect("logins").len();
    eventually("all logins wait", || waiting() == clients.len());
    assert_eq!(who(&api, "administrator").json()["name"], "administrator");
    drop(clients);
    eventually("nobody waits who has gone", || {
        let logins = api.node.logins.lock().expect("logins");
        logins.iter().all(|answer| !answer.waits())
    });
}

#[test]
fn a_login_that_finds_too_many_others_is_told_to_come_again() {
    let api = start();
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| who(&api, "slow"));
        let taken = || api.node.logins.lock().expect("logins").pop();
        let mut waiting = None;
        let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while waiting.is_none() && std::time::Instant::now() < end {
            waiting = taken();
            std::thread::yield_now();
        }
        waiting.expect("a login").tell(LoginVerdict::Busy);
        let answer = answer.join().expect("an answer");
        assert_eq!(answer.status, 503);
        // It is not asked for another password: this one may be right.
        assert!(!answer.head.contains("www-authenticate"), "{answer:?}");
    });
}

#[test]
fn a_wrong_password_counts_also_where_its_client_hangs_up() {
    let api = start();
    let request = format!(
        "GET /api/whoami HTTP/1.1\r\nHost: x\r\nAuthorization: {}\r\n\r\n",
        basic("administrator", "slow")
    );
    let mut client = TcpStream::connect(api.address(Service::Api)).expect("a connection");
    client.write_all(request.as_bytes()).expect("a request");
    let taken = || api.node.logins.lock().expect("logins").pop();
    let answer = std::cell::RefCell::new(None);
    eventually("the login waits", || {
        let found = taken();
        let is_there = found.is_some();
        *answer.borrow_mut() = found;
        is_there
    });
    let answer = answer.into_inner().expect("a login");
    drop(client);
    eventually("its client has gone", || !answer.waits());
    answer.tell(LoginVerdict::Wrong);
    let request = format!(
        "GET /api/auth/attempts/leveret@burrow HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: {}\r\n\r\n",
        basic("administrator", "administrator")
    );
    let rows = exchange(api.address(Service::Api), request.as_bytes()).json();
    let rows = rows.as_array().expect("rows");
    let http = rows.iter().find(|row| row["protocol"] == "http");
    assert_eq!(http.expect("a row")["auth_attempts_failed"], 1);
}

/// Waits for the end of a connection.
fn end_of(socket: &mut (impl Read + Write)) {
    let mut said = Vec::new();
    // A reset is an end as well.
    let _ = socket.read_to_end(&mut said);
    assert!(said.is_empty(), "nothing was asked");
}

#[test]
fn who_sends_nothing_is_dropped_before_who_has_begun_a_request() {
    let name = format!("leveret-silent-{}.sock", std::process::id());
    let file = std::env::temp_dir().join(name);
    let any = "127.0.0.1:0".parse().expect("an address");
    let mut endpoints = [Service::Api, Service::Metrics]
        .map(|service| Endpoint::plain(service, any))
        .to_vec();
    endpoints.push(Endpoint {
        address: ListenAddress::File(file.clone()),
        service: Service::Api,
    });
    let app = App::new(Arc::new(Fake::default()), Some("token".to_owned()), false);
    let server = Server::start(app, &endpoints).expect("it listens");
    for service in [Service::Api, Service::Metrics] {
        let address = server.plain_address(service).expect("it is served");
        let mut begun = TcpStream::connect(address).expect("a connection");
        begun.write_all(b"G").expect("a byte");
        end_of(&mut TcpStream::connect(address).expect("a connection"));
        begun.set_nonblocking(true).expect("a socket");
        let ended = begun.read(&mut [0]);
        let waits = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        assert!(ended.is_err_and(|error| waits(&error)), "{service:?}");
    }
    let mut begun = UnixStream::connect(&file).expect("a connection");
    begun.write_all(b"G").expect("a byte");
    end_of(&mut UnixStream::connect(&file).expect("a connection"));
    begun.set_nonblocking(true).expect("a socket");
    assert!(begun.read(&mut [0]).is_err(), "it waits");
}
