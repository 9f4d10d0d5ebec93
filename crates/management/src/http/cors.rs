//! Pages of other origins that may call the API, as far as the operator lets them: the headers by
//! which browsers learn of that.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Origins whose pages may call the API.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    /// `https://host[:port]` each, or `*` for all.
    pub(crate) origins: Vec<String>,
    /// For how long a browser need not ask again.
    pub(crate) seconds: u64,
}

impl Origins {
    /// Whether pages of this origin may. Frames and files that hide theirs say `null`: they may
    /// not, for anybody's page can be such a frame.
    pub(crate) fn permit(&self, origin: &str) -> bool {
        let is = |known: &String| known == "*" || known.eq_ignore_ascii_case(origin);
        origin != "null" && self.origins.iter().any(is)
    }

    /// What an answer to this request must say to the browser that asks for a page of another
    /// origin; nothing where none asks, or the page may not.
    pub(crate) fn headers(
        &self,
        request: &HeaderMap,
        methods: Option<&HeaderValue>,
    ) -> Vec<(HeaderName, HeaderValue)> {
        let Some(origin) = request.get(header::ORIGIN) else {
            return Vec::new();
        };
        if !origin.to_str().is_ok_and(|origin| self.permit(origin)) {
            return Vec::new();
        }
        let mut out = vec![
            (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone()),
            (
                header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
                HeaderValue::from_static("true"),
            ),
        ];
        let Some(methods) = methods else {
            return out;
        };
        // The answer to a question beforehand (OPTIONS).
        out.push((header::ACCESS_CONTROL_ALLOW_METHODS, methods.clone()));
        out.push((header::ACCESS_CONTROL_MAX_AGE, self.seconds.into()));
        if let Some(wanted) = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            out.push((header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone()));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_hides_its_origin_may_not_call_whatever_is_allowed() {
        let origins = |known: &[&str]| Origins {
            origins: known.iter().map(ToString::to_string).collect(),
            seconds: 0,
        };
        let all = origins(&["*"]);
        assert!(all.permit("https://page.example.com"));
        assert!(!all.permit("null"));
        assert!(!origins(&["null"]).permit("null"));
        assert!(!origins(&["https://page.example.com"]).permit("https://other.example.com"));
    }
}
