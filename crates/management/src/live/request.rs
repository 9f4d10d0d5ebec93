//! `/api/leveret/live`: who asks, for which paths. What they answer is sent by
//! [`crate::live::stream`].

use crate::access::Who;
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::live::subject::{Wanted, Watcher};
use leveret_types::limits::LIVE_PATHS_MAX;

/// `GET /api/leveret/live`
pub fn live(call: &Call<'_>) -> Result<Reply, ApiError> {
    let paths: Vec<String> = call.query.all("path").map(str::to_owned).collect();
    if !(1..=LIVE_PATHS_MAX).contains(&paths.len()) {
        let reason = format!(
            "1 to {LIVE_PATHS_MAX} parameters \"path\" are needed, each a path below /api/ with \
             its query"
        );
        return Err(ApiError::BadRequest(reason));
    }
    let watcher = watcher(call)?;
    Ok(Reply::Live(Wanted { watcher, paths }))
}

fn watcher(call: &Call<'_>) -> Result<Watcher, ApiError> {
    match call.who {
        Who::Operator => Ok(Watcher::Operator),
        Who::Nobody => Err(ApiError::LoginFailed),
        Who::User { name, .. } => {
            // The user may have gone meanwhile.
            let user = call.app.node().user(name).ok_or(ApiError::LoginFailed)?;
            Ok(Watcher::User {
                name: user.name,
                tags: user.tags,
                password_hash: user.password_hash,
            })
        }
    }
}
