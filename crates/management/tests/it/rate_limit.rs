//! A bound on how many requests one user and one address may send, over real HTTP on loopback.

use crate::api;
use crate::api::Api;
use crate::client::basic;
use crate::fake::Fake;
use leveret_management::Service;
use leveret_types::limits::RATE_BURST_SECONDS;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

/// The answer's status and head to a request of this user from this address of the machine.
fn ask(api: &Api, user: &str, from: u8) -> (u16, String) {
    let address = SocketAddr::from((Ipv4Addr::new(127, 0, 0, from), 0));
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &address).expect("an address of loopback");
    connect(&socket, &api.address(Service::Api)).expect("a server");
    let mut stream = TcpStream::from(socket);
    let authorization = basic(user, user);
    let request = format!(
        "GET /api/whoami HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: {authorization}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|s| s.parse().ok());
    (status.expect("a status"), answer.to_ascii_lowercase())
}

#[test]
fn one_user_or_address_that_asks_too_often_is_told_when_to_come_again_and_others_are_served() {
    let api = Api::of(Fake::default(), |app| app.with_rate_limit(1));
    let statuses = |user: &str, from: u8, requests: u64| -> Vec<u16> {
        (0..requests).map(|_| ask(&api, user, from).0).collect()
    };
    let burst = usize::try_from(RATE_BURST_SECONDS).expect("a small number");
    // A slow machine may have earned some more meanwhile, but never as many as are sent here.
    let of_address = statuses("management", 1, 8 * RATE_BURST_SECONDS);
    assert_eq!(of_address[..burst], vec![200; burst]);
    assert!(of_address.contains(&429), "{of_address:?}");

    let refused = (0..8 * RATE_BURST_SECONDS)
        .map(|_| ask(&api, "management", 2))
        .find(|(status, _)| *status == 429);
    let (_, head) = refused.expect("the user has used up what it had from elsewhere");
    assert!(head.contains("retry-after: 1\r\n"), "{head}");
    assert!(
        head.contains("this user sends more than 1 requests a second"),
        "{head}"
    );
    assert_eq!(ask(&api, "monitoring", 3).0, 200);
}

#[test]
fn nobody_is_held_back_where_nothing_is_said() {
    let api = api::start();
    for _ in 0..20 * RATE_BURST_SECONDS {
        assert_eq!(ask(&api, "management", 1).0, 200);
    }
}
