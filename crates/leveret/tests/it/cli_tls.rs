//! The command line at an HTTP API that speaks TLS.

use crate::common::{Folder, certificate};
use crate::fake::Fake;
use leveret::ctl;
use leveret_management::{App, Endpoint, ListenAddress, Server, Service, Tls};
use std::sync::Arc;

#[test]
fn a_node_is_believed_by_its_certificate_or_where_that_is_said_by_name() {
    let folder = Folder::new("cli-tls");
    let (its, another) = (
        folder.path().join("its.pem"),
        folder.path().join("another.pem"),
    );
    let settings = certificate(&its);
    certificate(&another);
    let password = folder.path().join("password");
    std::fs::write(&password, "administrator\n").expect("written");
    let any = "127.0.0.1:0".parse().expect("an address");
    let address = ListenAddress::Tcp(any, Some(Tls::new(settings)));
    let endpoint = Endpoint {
        service: Service::Api,
        address,
    };
    let fake = Arc::new(Fake::default());
    let app = App::new(Arc::clone(&fake) as _, None, false);
    let server = Server::start(app, &[endpoint]).expect("a port on loopback");
    let port = server.bound()[0].address.port();

    let ask = |host: &str, trust: &[&str]| {
        let words = ["--url", &format!("https://{host}:{port}"), "--username"];
        let file = password.display().to_string();
        let user = ["administrator", "--password-file", &file];
        let command = ["-q", "list_vhosts"];
        let words = words.iter().chain(&user).chain(trust).chain(&command);
        let words: Vec<String> = words.map(|word| (*word).to_owned()).collect();
        let mut out = String::new();
        let done = ctl::run(&words, &mut |text| out.push_str(text));
        done.map(|()| out).map_err(|failure| failure.text)
    };
    let its = its.display().to_string();
    let another = another.display().to_string();
    let vhosts = ask("localhost", &["--ca-file", &its]).expect("believed");
    assert!(vhosts.contains("other"), "{vhosts}");
    for (host, trust) in [
        ("localhost", &["--ca-file", another.as_str()][..]),
        ("localhost", &[]),
        // Another name than the one that the certificate has.
        ("127.0.0.1", &["--ca-file", &its]),
    ] {
        let error = ask(host, trust).expect_err("not believed");
        assert!(error.contains("certificate"), "{error}");
    }
    let error = ask("localhost", &["--ca-file", "/nonexistent"]).expect_err("no file");
    assert!(
        error.contains("cannot read authorities from /nonexistent"),
        "{error}"
    );
    assert_eq!(ask("127.0.0.1", &["--insecure"]).expect("believed"), vhosts);
}
