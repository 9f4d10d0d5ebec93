//! Finding a route: patterns of path segments, and the methods that each has.

use crate::access::Access;
use crate::access::Who;
use crate::app::App;
use crate::http::input::{Body, Query, percent_decode};
use crate::http::reply::{ApiError, Reply};
use std::net::IpAddr;
use std::sync::Arc;

/// A request, as a handler sees it: it has been let in, and its body is whole.
pub struct Call<'a> {
    /// The application.
    pub app: &'a Arc<App>,
    /// Who asks.
    pub who: &'a Who,
    /// The method and the pattern of the resource that is asked.
    pub of: (&'static str, &'static str),
    /// Where the request comes from.
    pub from: IpAddr,
    /// What stands in the path where the pattern has `{}`.
    pub params: Vec<String>,
    /// The query.
    pub query: Query,
    /// The body's bytes.
    pub bytes: &'a [u8],
    /// The header `Content-Type`; empty where there is none.
    pub content_type: String,
    /// The header `X-Reason`.
    pub reason: Option<String>,
}

impl Call<'_> {
    /// Parameter `index` of the path.
    #[must_use]
    pub fn param(&self, index: usize) -> &str {
        &self.params[index]
    }

    /// The body as a JSON object.
    pub fn body(&self) -> Result<Body, ApiError> {
        Ok(Body::parse(self.bytes)?.read_by(self.of))
    }
}

/// What answers a request.
pub type Handler = fn(&Call<'_>) -> Result<Reply, ApiError>;

/// A method of a resource.
pub struct Method {
    /// `GET`, `PUT`...
    pub name: &'static str,
    /// What it asks of whoever uses it.
    pub access: Access,
    /// What answers.
    pub handler: Handler,
}

/// A resource.
pub struct Route {
    /// Its path: segments, `{}` where any may stand; `{vhost}` is a virtual host that must exist,
    /// `{vhost?}` one that need not.
    pub path: &'static str,
    /// Its methods.
    pub methods: &'static [Method],
}

/// A route that fits a request.
pub struct Found {
    /// The method.
    pub method: &'static Method,
    /// The path's pattern.
    pub pattern: &'static str,
    /// What shows the resource: its `GET`, if it has one.
    pub look: Option<Handler>,
    /// What stands where the pattern has `{}`.
    pub params: Vec<String>,
    /// The virtual host among them.
    pub vhost: Option<String>,
    /// Whether a virtual host that is not there is told before the handler is asked.
    pub vhost_must_exist: bool,
    /// Whether it answers with a page for people.
    pub is_for_people: bool,
}

/// The route of a request.
pub fn find(routes: &'static [Route], method: &str, path: &str) -> Result<Found, ApiError> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let route = routes
        .iter()
        .find(|route| fits(route.path, &segments))
        .ok_or(ApiError::NotFound)?;
    // HEAD is GET without its body, which the server leaves out.
    let wanted = if method == "HEAD" { "GET" } else { method };
    let Some(method) = route.methods.iter().find(|m| m.name == wanted) else {
        return Err(ApiError::MethodNotAllowed(allowed(route)));
    };
    let (mut params, mut vhost) = (Vec::new(), None);
    for (pattern, segment) in route.path.split('/').skip(1).zip(&segments) {
        if pattern.starts_with('{') {
            let text = segment_text(segment).ok_or_else(|| {
                ApiError::BadRequest("the path is not percent-encoded UTF-8".to_owned())
            })?;
            if matches!(pattern, "{vhost}" | "{vhost?}") {
                vhost = Some(text.clone());
            }
            params.push(text);
        }
    }
    let look = route.methods.iter().find(|method| method.name == "GET");
    Ok(Found {
        method,
        pattern: route.path,
        look: look.map(|method| method.handler),
        params,
        vhost,
        vhost_must_exist: route.path.contains("{vhost}"),
        is_for_people: matches!(route.path, "/api" | "/api/index.html"),
    })
}

/// What a segment stands for. Browsers and most libraries take a segment of dots alone for a way up
/// the path, escaped or not: they write `%FF`, an octet that no name has, before such a name.
fn segment_text(segment: &str) -> Option<String> {
    match segment {
        "%FF." | "%ff." => Some(".".to_owned()),
        "%FF.." | "%ff.." => Some("..".to_owned()),
        _ => percent_decode(segment),
    }
}

/// The methods of a resource, as the header `Allow` lists them.
fn allowed(route: &Route) -> String {
    let has_get = route.methods.iter().any(|method| method.name == "GET");
    let head = has_get.then_some("HEAD");
    let own = route.methods.iter().map(|method| method.name);
    let all: Vec<_> = head.into_iter().chain(own).chain(["OPTIONS"]).collect();
    all.join(", ")
}

fn fits(pattern: &str, segments: &[&str]) -> bool {
    let mut parts = pattern.split('/').skip(1);
    let fit = segments.iter().all(|segment| match parts.next() {
        Some(part) if part.starts_with('{') => !segment.is_empty(),
        Some(part) => part == *segment,
        None => false,
    });
    fit && parts.next().is_none()
}
