//! The operators' page: its files are part of the binary.
//!
//! The page is a client of the HTTP API like any other. It asks for everything by addresses
//! relative to its own, so that it works behind a proxy that puts a prefix before them.
//!
//! Invariant: no file needs anything from another origin, and none has script or style inline:
//! the policy that is sent with each forbids both.

use crate::http::chunked_body::Content;
use crate::http::reply::fingerprint;
use crate::minify;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use std::io::Write;
use std::sync::LazyLock;

/// What a browser may load and do on behalf of the page: only what this origin serves.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; \
                                       frame-ancestors 'none'; object-src 'none'";

/// One file of the page.
struct File {
    /// Its path below the root.
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";
const TEXT: &str = "text/plain; charset=utf-8";

/// A table of files: `KIND "path", ...`.
macro_rules! files {
    ($($kind:ident $path:literal),+ $(,)?) => {
        &[$(File {
            path: $path,
            kind: $kind,
            bytes: include_bytes!(concat!("../ui/", $path)),
        }),+]
    };
}

/// Every file of the page.
static FILES: &[File] = files![
    HTML "index.html",
    STYLE "style.css",
    IMAGE "icon.svg",
    SCRIPT "app.js",
    SCRIPT "api.js",
    SCRIPT "exact.js",
    SCRIPT "parts.js",
    SCRIPT "charts.js",
    SCRIPT "plot.js",
    SCRIPT "palette.js",
    SCRIPT "pages/all.js",
    SCRIPT "pages/audit.js",
    SCRIPT "pages/browse.js",
    SCRIPT "pages/pairs.js",
    SCRIPT "pages/trouble.js",
    SCRIPT "pages/overview.js",
    SCRIPT "pages/clients.js",
    SCRIPT "pages/exchanges.js",
    SCRIPT "pages/queues.js",
    SCRIPT "pages/streams.js",
    SCRIPT "pages/growth.js",
    SCRIPT "pages/moves.js",
    SCRIPT "pages/nodes.js",
    SCRIPT "pages/operate.js",
    SCRIPT "pages/admin.js",
    SCRIPT "pages/insight.js",
    SCRIPT "vendor/preact.js",
    SCRIPT "vendor/preact-hooks.js",
    SCRIPT "vendor/htm.js",
    TEXT "vendor/LICENCES.txt",
];

/// Addresses of RabbitMQ's page, with what serves in their place: relative, so that a prefix stays
/// before them.
const MOVED: [(&str, &str); 9] = [
    ("cli", "api/index.html"),
    ("cli/index.html", "../api/index.html"),
    ("doc/stats.html", "../api/index.html"),
    ("stats", "api/index.html"),
    ("favicon.ico", "icon.svg"),
    ("js/main.js", "../app.js"),
    ("mgmt", "./"),
    ("mgmt/", "../"),
    ("login", "./"),
];

/// The answer to a request for an address of RabbitMQ's page: where to go.
fn moved(path: &str) -> Option<Response<Content>> {
    let (_, to) = MOVED.iter().find(|(from, _)| *from == path)?;
    let mut response = Response::new(Content::whole(Bytes::new()));
    // A login is asked for each time; the others have moved for good.
    *response.status_mut() = match path {
        "login" => StatusCode::FOUND,
        _ => StatusCode::MOVED_PERMANENTLY,
    };
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, HeaderValue::from_static(to));
    Some(response)
}

/// What is sent of a file.
struct Sent {
    bytes: Bytes,
    /// The same, for who takes it so.
    gzipped: Bytes,
    tag: String,
}

/// What is sent of [`FILES`], in their order.
static SENT: LazyLock<Vec<Sent>> = LazyLock::new(|| {
    let sent = |file: &File| {
        let bytes = sent(file);
        Sent {
            gzipped: gzipped(&bytes),
            tag: format!("\"{:016x}\"", fingerprint(&bytes)),
            bytes,
        }
    };
    FILES.iter().map(sent).collect()
});

fn gzipped(bytes: &[u8]) -> Bytes {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    let written = gzip.write_all(bytes).and_then(|()| gzip.finish());
    // A vector takes whatever is written to it.
    written.map(Bytes::from).unwrap_or_default()
}

/// A file as it is sent.
fn sent(file: &File) -> Bytes {
    let is_own = !file.path.starts_with("vendor/");
    let own = std::str::from_utf8(file.bytes).ok().filter(|_| is_own);
    match (own, file.kind) {
        (Some(text), SCRIPT) => Bytes::from(minify::script(text)),
        (Some(text), STYLE) => Bytes::from(minify::style(text)),
        _ => Bytes::from_static(file.bytes),
    }
}

/// The answer to a request for a file of the page; none for any other.
pub fn answer(
    method: &str,
    path: &str,
    headers: &HeaderMap,
    takes_gzip: bool,
) -> Option<Response<Content>> {
    if !matches!(method, "GET" | "HEAD") {
        return None;
    }
    let path = path.strip_prefix('/')?;
    let path = if path.is_empty() { "index.html" } else { path };
    let Some(at) = FILES.iter().position(|file| file.path == path) else {
        return moved(path);
    };
    let (file, sent) = (&FILES[at], &SENT[at]);
    let tag = &sent.tag;
    let known = headers.get(header::IF_NONE_MATCH);
    let known = known.and_then(|known| known.to_str().ok());
    let is_known = known.is_some_and(|known| crate::http::reply::names(known, tag));
    let body = match (is_known, takes_gzip) {
        (true, _) => Bytes::new(),
        (false, true) => sent.gzipped.clone(),
        (false, false) => sent.bytes.clone(),
    };
    let mut response = Response::new(Content::whole(body));
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    for (name, value) in fixed_headers(file) {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if takes_gzip && !is_known {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(header::ETAG, tag);
    }
    Some(response)
}

fn fixed_headers(file: &File) -> [(HeaderName, &'static str); 6] {
    [
        (header::CONTENT_TYPE, file.kind),
        // The browser asks each time whether its copy is the newest: an upgrade shows at once.
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The page's script and styles together; a page that loads at once over a slow link.
    const SCRIPT_AND_STYLE_BYTES_MAX: usize = 250_000;

    fn ask(path: &str) -> Option<Response<Content>> {
        answer("GET", path, &HeaderMap::new(), false)
    }

    fn files_below(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("the page's folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                files_below(&path, found);
            } else {
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui");
        let mut found = Vec::new();
        files_below(&folder, &mut found);
        for path in &found {
            let path = path.strip_prefix(folder.to_str().expect("UTF-8"));
            assert!(ask(path.expect("below")).is_some(), "{path:?}");
        }
        assert_eq!(found.len(), FILES.len());
    }

    #[test]
    fn the_root_is_the_page_and_what_is_no_file_is_left_to_others() {
        let response = ask("/").expect("the page");
        assert_eq!(response.headers()[header::CONTENT_TYPE], HTML);
        for path in ["/api/overview", "/app", "/../Cargo.toml", "", "/vendor/"] {
            assert!(ask(path).is_none(), "{path}");
        }
        assert!(answer("POST", "/", &HeaderMap::new(), false).is_none());
    }

    #[test]
    fn addresses_of_rabbitmqs_page_lead_to_what_serves_in_their_place() {
        for (path, status, to) in [
            ("/cli", 301, "api/index.html"),
            ("/cli/index.html", 301, "../api/index.html"),
            ("/doc/stats.html", 301, "../api/index.html"),
            ("/stats", 301, "api/index.html"),
            ("/favicon.ico", 301, "icon.svg"),
            ("/js/main.js", 301, "../app.js"),
            ("/mgmt", 301, "./"),
            ("/mgmt/", 301, "../"),
            ("/login", 302, "./"),
        ] {
            let response = ask(path).expect(path);
            let location = &response.headers()[header::LOCATION];
            assert_eq!(
                (response.status().as_u16(), location.to_str().ok()),
                (status, Some(to)),
                "{path}"
            );
            let below = path.matches('/').count() - 1;
            let is_known = |file: &File| to.trim_start_matches("../") == file.path;
            assert!(to.matches("../").count() <= below, "{path} leads out");
            assert!(to.ends_with('/') || to.contains("api/") || FILES.iter().any(is_known));
        }
    }

    #[test]
    fn the_page_knows_how_large_definitions_may_be() {
        let file = FILES.iter().find(|file| file.path == "pages/admin.js");
        let text = std::str::from_utf8(file.expect("a file").bytes).expect("UTF-8");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("const IMPORT_BYTES_MAX = "));
        let most = line.expect("a limit").replace('_', "");
        assert_eq!(
            most,
            leveret_types::limits::HTTP_DEFINITIONS_BYTES_MAX.to_string()
        );
    }

    #[test]
    fn a_known_tag_is_answered_without_a_body() {
        let tag = ask("/app.js").expect("a file").headers()[header::ETAG].clone();
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, tag);
        let again = answer("GET", "/app.js", &headers, true).expect("a file");
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        let other = answer("GET", "/style.css", &headers, true).expect("a file");
        assert_eq!(other.status(), StatusCode::OK);
        assert_eq!(other.headers()[header::CONTENT_ENCODING], "gzip");
    }

    #[test]
    fn nothing_is_inline_and_the_policy_says_so() {
        let policy = ask("/").expect("the page").headers()[header::CONTENT_SECURITY_POLICY].clone();
        assert!(
            policy
                .to_str()
                .expect("text")
                .starts_with("default-src 'self';")
        );
        assert!(!CONTENT_SECURITY_POLICY.contains("unsafe"));
        let page = FILES.iter().find(|file| file.kind == HTML).expect("a page");
        let page = std::str::from_utf8(page.bytes).expect("UTF-8");
        assert!(!page.contains("<style") && !page.contains(" style="));
        assert!(!page.contains("<script>") && !page.contains(" on"));
        assert!(!page.contains("http://") && !page.contains("https://"));
    }

    #[test]
    fn script_and_style_are_small() {
        let counted = FILES
            .iter()
            .filter(|file| matches!(file.kind, SCRIPT | STYLE));
        let bytes: usize = counted.clone().map(|file| sent(file).len()).sum();
        assert!(bytes <= SCRIPT_AND_STYLE_BYTES_MAX, "{bytes}");
        let gzipped: usize = counted.map(|file| gzipped(&sent(file)).len()).sum();
        assert!(gzipped <= SCRIPT_AND_STYLE_BYTES_MAX * 2 / 5, "{gzipped}");
    }
}
