//! How many requests are carried out at once: at all ports together, for one network, and for one
//! user of that.
//!
//! Requests that only look have threads of their own. One that changes something may wait for a
//! disk, a queue's leader or a majority of the cluster, for as long as there is none: such requests
//! must not keep operators from seeing that.

use hyper::Method;
use leveret_types::limits::{
    HTTP_CHANGES_MAX, HTTP_CHANGES_OF_ADDRESS_MAX, HTTP_CHANGES_OF_USER_MAX, HTTP_WORKERS_MAX,
    HTTP_WORKERS_OF_ADDRESS_MAX, HTTP_WORKERS_OF_USER_MAX, LIVE_WORKERS_MAX, METRICS_SCRAPES_MAX,
};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The thread that waits for read barriers.
const BARRIER_THREADS: usize = 1;

/// Threads that may be needed at once.
pub(crate) const THREADS_MAX: usize =
    HTTP_WORKERS_MAX + HTTP_CHANGES_MAX + METRICS_SCRAPES_MAX + LIVE_WORKERS_MAX + BARRIER_THREADS;

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    /// To see what there is.
    Look,
    /// To have something done.
    Change,
}

impl Errand {
    /// That of a request with this method.
    pub(crate) fn of(method: &Method) -> Self {
        match method.is_safe() {
            true => Self::Look,
            false => Self::Change,
        }
    }
}

/// Places for requests that are carried out.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    looks: Arc<Semaphore>,
    changes: Arc<Semaphore>,
}

/// A place that is taken, until this is dropped.
pub(crate) type Place = Option<OwnedSemaphorePermit>;

impl Workers {
    /// Those of all ports.
    pub(crate) fn of_node() -> Self {
        Self::new(HTTP_WORKERS_MAX, HTTP_CHANGES_MAX)
    }

    /// Those that one network may have.
    pub(crate) fn of_network() -> Self {
        Self::new(HTTP_WORKERS_OF_ADDRESS_MAX, HTTP_CHANGES_OF_ADDRESS_MAX)
    }

    /// Those that one user may have of a network's.
    pub(crate) fn of_user() -> Self {
        Self::new(HTTP_WORKERS_OF_USER_MAX, HTTP_CHANGES_OF_USER_MAX)
    }

    fn new(looks: usize, changes: usize) -> Self {
        Self {
            looks: Arc::new(Semaphore::new(looks)),
            changes: Arc::new(Semaphore::new(changes)),
        }
    }

    /// Waits for a place: whoever has waited longest has it.
    pub(crate) async fn place(&self, errand: Errand) -> Place {
        let places = match errand {
            Errand::Look => &self.looks,
            Errand::Change => &self.changes,
        };
        // They are never closed.
        Arc::clone(places).acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn take(workers: &Workers, errand: Errand) -> Place {
        match pin!(workers.place(errand)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => place,
            Poll::Pending => None,
        }
    }

    #[test]
    fn there_are_so_many_places_and_not_one_more_and_those_of_changes_are_no_others() {
        for (workers, looks, changes) in [
            (Workers::of_node(), HTTP_WORKERS_MAX, HTTP_CHANGES_MAX),
            (
                Workers::of_network(),
                HTTP_WORKERS_OF_ADDRESS_MAX,
                HTTP_CHANGES_OF_ADDRESS_MAX,
            ),
            (
                Workers::of_user(),
                HTTP_WORKERS_OF_USER_MAX,
                HTTP_CHANGES_OF_USER_MAX,
            ),
        ] {
            let mut taken = Vec::new();
            for (errand, most) in [(Errand::Change, changes), (Errand::Look, looks)] {
                taken.extend((0..most).map(|_| take(&workers, errand)));
                assert!(taken.iter().all(Option::is_some), "{errand:?}");
                assert!(take(&workers, errand).is_none(), "{errand:?}");
            }
            taken.pop();
            assert!(take(&workers, Errand::Look).is_some());
            assert!(take(&workers, Errand::Change).is_none());
        }
    }

    #[test]
    fn only_what_asks_for_nothing_but_an_answer_is_a_look() {
        for (method, errand) in [
            (Method::GET, Errand::Look),
            (Method::HEAD, Errand::Look),
            (Method::OPTIONS, Errand::Look),
            (Method::PUT, Errand::Change),
            (Method::POST, Errand::Change),
            (Method::DELETE, Errand::Change),
        ] {
            assert_eq!(Errand::of(&method), errand, "{method}");
        }
    }
}
