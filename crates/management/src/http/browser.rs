//! What a browser may be made to send by a page that is not this node's own.
//!
//! A browser adds the credentials that it knows to whatever any page has it send. So a request that
//! a browser sent must come from this node's own page, unless it only reads: the browser itself
//! keeps answers from other pages. Programs send none of a browser's marks, and are not judged.

use crate::http::cors::Origins;
use crate::http::reply::ApiError;
use hyper::Method;
use hyper::header::{
    ACCEPT_LANGUAGE, CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN, REFERER, USER_AGENT,
};
use std::net::IpAddr;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const X_REQUESTED_WITH: HeaderName = HeaderName::from_static("x-requested-with");

/// The names by which browsers reach a node, beside its addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostNames {
    /// What its machine calls itself; empty where that is not known.
    pub(crate) of_machine: String,
    /// What an operator has listed.
    pub(crate) listed: Vec<String>,
}

impl HostNames {
    fn lists(&self, name: &str) -> bool {
        let mut listed = self.listed.iter();
        listed.any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Whether a page under this name is the node's own. A machine's name with another domain
    /// behind it may be anybody's.
    fn has(&self, name: &str) -> bool {
        let machine = self.of_machine.as_str();
        let short = machine.split('.').next().unwrap_or_default();
        let is_of_machine = [machine, short]
            .into_iter()
            .any(|own| !own.is_empty() && own.eq_ignore_ascii_case(name));
        is_of_machine || is_of_this_machine(name) || self.lists(name)
    }
}

/// The method, path and headers of a request, as far as they tell who had it sent.
pub(crate) struct Sender<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a HeaderMap,
    /// Whether it came in over an address of this machine that only this machine reaches.
    pub(crate) is_local: bool,
}

impl Sender<'_> {
    fn text(&self, name: &HeaderName) -> Option<&str> {
        // What is no text is none that is known.
        self.headers
            .get(name)
            .map(|value| value.to_str().unwrap_or("?"))
    }

    /// Whether the headers are a browser's. Pages can hide some of these, not all.
    fn is_browser(&self) -> bool {
        self.is_of_a_page()
            || self.agent().starts_with("Mozilla/")
            || [&SEC_FETCH_MODE, &ACCEPT_LANGUAGE]
                .into_iter()
                .any(|mark| self.headers.contains_key(mark))
    }

    /// Whether a header says from which page it comes.
    fn is_of_a_page(&self) -> bool {
        [&ORIGIN, &SEC_FETCH_SITE, &REFERER]
            .into_iter()
            .any(|mark| self.headers.contains_key(mark))
    }

    fn agent(&self) -> &str {
        self.text(&USER_AGENT).unwrap_or_default()
    }

    /// Whether a script of a page asks: a browser would otherwise ask its user for a password, and
    /// keep that for every page.
    pub(crate) fn is_script(&self) -> bool {
        let mode = self.text(&SEC_FETCH_MODE);
        self.headers.contains_key(X_REQUESTED_WITH) || mode.is_some_and(|mode| mode != "navigate")
    }

    /// Whether the request may be answered at a node that is known by `names`, beside its own
    /// addresses, and that lets pages of these `origins` call it.
    pub(crate) fn check(&self, names: &HostNames, origins: &Origins) -> Result<(), ApiError> {
        if !self.is_browser() {
            return Ok(());
        }
        self.check_host(names)?;
        if matches!(*self.method, Method::GET | Method::HEAD) {
            return Ok(());
        }
        let is_let_in = self
            .text(&ORIGIN)
            .is_some_and(|origin| origins.permit(origin));
        if !is_let_in {
            self.check_origin(names)?;
        }
        self.check_content_type()
    }

    /// A name that somebody else gave this machine's own address is that of a page which would be
    /// taken for this node's own. From elsewhere a node is reached by names that it cannot know,
    /// unless an operator has listed them.
    fn check_host(&self, names: &HostNames) -> Result<(), ApiError> {
        let host = self.text(&HOST).unwrap_or_default();
        let name = host_of(host).unwrap_or_default();
        let is_judged = self.is_local || !names.listed.is_empty();
        if !is_judged || names.has(name) {
            return Ok(());
        }
        refuse(format!(
            "this node is not known as {name:?}: if it is, add the name to management.hosts"
        ))
    }

    fn check_origin(&self, names: &HostNames) -> Result<(), ApiError> {
        let origin = self.text(&ORIGIN);
        let is_named = || {
            let name = origin.and_then(authority_of).and_then(|of| host_of(of));
            name.is_some_and(|name| names.lists(name))
        };
        let is_own = match (self.text(&SEC_FETCH_SITE), origin) {
            // The browser has compared what it knows better, also behind a proxy.
            (Some("same-origin" | "none"), _) => true,
            (Some(_), _) => is_named(),
            (None, None) => true,
            (None, Some(origin)) => {
                let host = self.text(&HOST).unwrap_or_default();
                is_origin_of(origin, host) || is_named()
            }
        };
        match is_own {
            true => Ok(()),
            false => refuse(format!(
                "pages of {} may not do this here",
                origin.unwrap_or("another site")
            )),
        }
    }

    /// Forms and texts are what a browser sends without asking this node first. An old one does not
    /// say from which page they come; PowerShell, which says that it is a browser, sends forms by
    /// itself.
    fn check_content_type(&self) -> Result<(), ApiError> {
        let agent = self.agent();
        let is_old = agent.starts_with("Mozilla/") && !agent.contains("PowerShell/");
        let is_judged = is_old || self.is_of_a_page();
        // Only these two have been compared with what this node is.
        let is_own = self.headers.contains_key(ORIGIN) || self.headers.contains_key(SEC_FETCH_SITE);
        let kind = match self.text(&CONTENT_TYPE) {
            Some(kind) if is_judged => kind,
            // Pages may send what has no type as well.
            None if is_old && !is_own && *self.method == Method::POST && !self.is_script() => "",
            _ => return Ok(()),
        };
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let is = |wanted: &str| kind.eq_ignore_ascii_case(wanted);
        let imports = ["/api/definitions", "/api/all-configuration"];
        let is_upload = is_own && imports.iter().any(|of| self.path.starts_with(of));
        let permitted = is("application/json")
            || is("multipart/form-data") && is_upload
            || is("application/x-www-form-urlencoded") && self.path.starts_with("/api/login");
        match permitted {
            true => Ok(()),
            false => refuse(format!(
                "pages must send application/json here, not {kind:?}"
            )),
        }
    }
}

fn refuse(reason: String) -> Result<(), ApiError> {
    Err(ApiError::Forbidden(reason))
}

/// `host:port` of an origin; none of `null`.
fn authority_of(origin: &str) -> Option<&str> {
    origin.split_once("://").map(|(_, authority)| authority)
}

/// Whether a page of this origin came from this host. Proxies may write the port that an origin
/// leaves out.
fn is_origin_of(origin: &str, host: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else {
        return false;
    };
    let usual_port = match scheme {
        "https" => ":443",
        _ => ":80",
    };
    let host = host.strip_suffix(usual_port).unwrap_or(host);
    authority.eq_ignore_ascii_case(host)
}

/// The host of `host:port`, without the brackets of an address.
fn host_of(authority: &str) -> Option<&str> {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, _)| host),
        None => authority.split(':').next(),
    }
}

fn is_of_this_machine(name: &str) -> bool {
    // An address stands for itself: no name was looked up.
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said to this request by a node on the machine `mq` that is listed as
    /// `mq.example.com`.
    fn judge(method: &str, path: &str, is_local: bool, headers: &str) -> Result<(), ApiError> {
        let names = HostNames {
            of_machine: "mq".to_owned(),
            listed: vec!["mq.example.com".to_owned()],
        };
        judge_by(&names, (method, path), is_local, headers)
    }

    fn judge_by(
        names: &HostNames,
        (method, path): (&str, &str),
        is_local: bool,
        headers: &str,
    ) -> Result<(), ApiError> {
        let mut all = HeaderMap::new();
        for header in headers.split(';').map(str::trim).filter(|h| !h.is_empty()) {
            let (name, value) = header.split_once(": ").expect("a header");
            let name: HeaderName = name.parse().expect("a name");
            all.insert(name, value.parse().expect("a value"));
        }
        let sender = Sender {
            method: &method.parse().expect("a method"),
            path,
            headers: &all,
            is_local,
        };
        sender.check(names, &Origins::default())
    }

    #[test]
    fn what_programs_send_is_not_judged() {
        for headers in [
            "host: localhost:15672; user-agent: curl/8.5.0; content-type: application/x-www-form-urlencoded",
            "host: whatever; user-agent: python-requests/2.31; content-type: application/json",
            "host: whatever; user-agent: Go-http-client/1.1",
            "host: whatever; user-agent: Java-http-client/17; content-type: text/plain",
            "host: 10.0.0.7:15672; content-type: multipart/form-data",
            // What Node's fetch and PowerShell send without being told a type.
            "host: 10.0.0.7:15672; user-agent: node; accept-language: *; sec-fetch-mode: cors; content-type: text/plain",
            "host: 10.0.0.7:15672; user-agent: Mozilla/5.0 (Windows NT) WindowsPowerShell/5.1.2; content-type: application/x-www-form-urlencoded",
            "",
        ] {
            for (method, path) in [("PUT", "/api/users/u"), ("POST", "/api/definitions")] {
                assert_eq!(judge(method, path, true, headers), Ok(()), "{headers}");
            }
        }
    }

    #[test]
    fn pages_of_other_sites_only_read() {
        let foreign = [
            "host: mq:15672; origin: http://evil.example",
            "host: mq:443; origin: http://mq",
            "host: mq:15672; origin: null",
            "host: mq:15672; origin: http://mq:8080",
            "host: mq:15672; sec-fetch-site: cross-site",
            "host: mq:15672; sec-fetch-site: same-site; origin: http://mq:8080",
        ];
        for headers in foreign {
            for method in ["POST", "PUT", "DELETE"] {
                let judged = judge(method, "/api/definitions", false, headers);
                assert!(matches!(judged, Err(ApiError::Forbidden(_))), "{headers}");
            }
            for method in ["GET", "HEAD"] {
                assert_eq!(
                    judge(method, "/api/queues", false, headers),
                    Ok(()),
                    "{headers}"
                );
            }
        }
        for headers in [
            "host: mq:15672; origin: http://mq:15672",
            "host: mq:80; origin: http://mq",
            "host: mq:443; origin: https://mq",
            "host: mq:15672; sec-fetch-site: none",
            // Behind a proxy that does not pass the name on.
            "host: 127.0.0.1:15672; origin: https://mq.example.org; sec-fetch-site: same-origin",
            "host: 127.0.0.1:15672; origin: https://mq.example.com; sec-fetch-site: same-site",
            "host: 127.0.0.1:15672; origin: https://mq.example.com:8443",
        ] {
            assert_eq!(
                judge("POST", "/api/users/u", false, headers),
                Ok(()),
                "{headers}"
            );
        }
    }

    #[test]
    fn pages_send_json_or_the_forms_that_are_known() {
        let own = "host: mq; origin: http://mq; content-type: ";
        for (path, kind, permitted) in [
            ("/api/definitions", "application/json", true),
            ("/api/definitions", "multipart/form-data; boundary=x", true),
            ("/api/login", "application/x-www-form-urlencoded", true),
            ("/api/definitions", "text/plain", false),
            (
                "/api/definitions",
                "application/x-www-form-urlencoded",
                false,
            ),
            ("/api/users/u", "multipart/form-data; boundary=x", false),
            ("/api/users/u", "text/plain; application/json", false),
        ] {
            let kind = kind.split(';').next().expect("a type");
            let judged = judge("POST", path, false, &format!("{own}{kind}"));
            assert_eq!(judged.is_ok(), permitted, "{path} {kind}");
        }
    }

    #[test]
    fn an_old_browser_that_names_no_page_sends_no_form_either() {
        let forms = [
            "text/plain",
            "multipart/form-data",
            "application/x-www-form-urlencoded",
        ];
        for mark in [
            "user-agent: Mozilla/5.0 (X11)",
            "referer: http://evil.example/",
        ] {
            for kind in forms {
                let headers = format!("host: mq; {mark}; content-type: {kind}");
                for path in ["/api/users/u", "/api/definitions"] {
                    let judged = judge("POST", path, false, &headers);
                    assert!(judged.is_err(), "{path} {headers}");
                }
            }
            let headers = format!("host: mq; {mark}; content-type: application/json");
            assert_eq!(judge("POST", "/api/users/u", false, &headers), Ok(()));
        }
        // Nor what is of no type, unless a script says that it asks, which no other page's may.
        let old = "host: mq; user-agent: Mozilla/5.0 (X11)";
        assert!(judge("POST", "/api/definitions", false, old).is_err());
        for (method, more) in [
            ("POST", "; x-requested-with: XMLHttpRequest"),
            ("POST", "; sec-fetch-site: same-origin"),
            ("DELETE", ""),
        ] {
            let headers = format!("{old}{more}");
            let judged = judge(method, "/api/rebalance/queues", false, &headers);
            assert_eq!(judged, Ok(()), "{method} {headers}");
        }
    }

    #[test]
    fn a_name_that_is_made_to_mean_this_machine_is_no_name_of_the_node() {
        let at = |host: &str, mark: &str| {
            judge("GET", "/api/users", true, &format!("host: {host}; {mark}"))
        };
        let browser = "user-agent: Mozilla/5.0";
        for host in [
            "localhost:15672",
            "127.0.0.1",
            "[::1]:15672",
            "mq.localhost",
            "mq.example.com",
        ] {
            assert_eq!(at(host, browser), Ok(()), "{host}");
        }
        for mark in [
            browser,
            "accept-language: de",
            "sec-fetch-site: same-origin",
        ] {
            assert!(at("evil.example:15672", mark).is_err(), "{mark}");
        }
        assert_eq!(at("evil.example:15672", "user-agent: curl/8"), Ok(()));
    }

    #[test]
    fn from_elsewhere_names_are_judged_once_some_are_listed() {
        let browser = "user-agent: Mozilla/5.0";
        let names = |listed: &[&str]| HostNames {
            of_machine: "hare.example.org".to_owned(),
            listed: listed.iter().map(|name| (*name).to_owned()).collect(),
        };
        let ask = |names: &HostNames, is_local, host: &str, mark: &str| {
            let headers = format!("host: {host}; {mark}");
            judge_by(names, ("GET", "/api/users"), is_local, &headers)
        };
        let (none, some) = (names(&[]), names(&["mq.example.com"]));
        for host in [
            "192.0.2.7:15672",
            "[2001:db8::7]:15672",
            "hare:15672",
            "HARE.example.org",
            "MQ.example.com:443",
        ] {
            assert_eq!(ask(&some, false, host, browser), Ok(()), "{host}");
        }
        for host in ["hare.evil.example", "mq.internal", "mq.example.com.evil"] {
            assert!(ask(&some, false, host, browser).is_err(), "{host}");
            assert_eq!(ask(&some, false, host, "user-agent: curl/8"), Ok(()));
            assert_eq!(ask(&none, false, host, browser), Ok(()), "{host}");
            assert!(ask(&none, true, host, browser).is_err(), "{host}");
        }
        assert_eq!(ask(&none, true, "hare:15672", browser), Ok(()));
        let nameless = judge_by(&HostNames::default(), ("GET", "/"), true, browser);
        assert!(nameless.is_err(), "a node of no name is not meant by none");
    }
}
