//! TLS handshakes, on threads of their own that give way to clients of queues: each takes a
//! millisecond or more of a processor, and the thread that waits for sockets has all other clients
//! of the API. Strangers bring as many as they like.
//!
//! Those from where somebody has logged in have a thread of their own, and that of the others
//! stands back behind all that the API does. In each of them addresses take turns, a step of one
//! handshake at a time. What nobody waits for any more is not computed.

use crate::priority::{self, stand_back};
use leveret_auth::{AddressLines, Origin};
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// The handshakes of a server, and the threads that compute them.
#[derive(Debug)]
pub(crate) struct HandshakeThreads {
    familiar: Arc<Handshakes>,
    strangers: Arc<Handshakes>,
    threads: Vec<JoinHandle<()>>,
}

impl HandshakeThreads {
    /// Starts the threads.
    ///
    /// # Errors
    /// If the system has none left.
    pub(crate) fn start() -> io::Result<Self> {
        let mut all = Self {
            familiar: Arc::default(),
            strangers: Arc::default(),
            threads: Vec::new(),
        };
        for (name, niceness, handshakes) in [
            ("http-handshakes", priority::WORK, &all.familiar),
            ("http-strangers", priority::STRANGERS, &all.strangers),
        ] {
            let handshakes = Arc::clone(handshakes);
            let thread = std::thread::Builder::new().name(name.to_owned());
            all.threads.push(thread.spawn(move || {
                stand_back(niceness);
                handshakes.run();
            })?);
        }
        Ok(all)
    }

    /// Where handshakes from there wait.
    pub(crate) fn of(&self, origin: Origin) -> &Arc<Handshakes> {
        match origin.is_familiar() {
            true => &self.familiar,
            false => &self.strangers,
        }
    }
}

impl Drop for HandshakeThreads {
    /// Ends the threads; what is under way is not computed any more.
    fn drop(&mut self) {
        self.familiar.stop();
        self.strangers.stop();
        for thread in self.threads.drain(..) {
            // A panic of that thread has been reported where it happened.
            let _ = thread.join();
        }
    }
}

/// The handshakes that have a step to be computed by one thread. There are as many as there are
/// connections at most, which the connection limiter bounds.
#[derive(Default)]
pub(crate) struct Handshakes {
    waiting: Mutex<Waiting>,
    waker: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: AddressLines<Arc<Handshake>>,
    is_stopped: bool,
}

impl Waiting {
    fn pop(&mut self) -> Option<Arc<Handshake>> {
        self.lines.pop(|_| true)
    }
}

impl fmt::Debug for Handshakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handshakes")
    }
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A handshake: it waits for a step to be computed, or for its peer.
struct Handshake {
    from: Origin,
    all: Weak<Handshakes>,
    is_in_line: AtomicBool,
    /// Nothing once it is done.
    work: Mutex<Option<Work>>,
}

impl Wake for Handshake {
    fn wake(self: Arc<Self>) {
        let is_in_line = self.is_in_line.swap(true, Ordering::AcqRel);
        if let Some(all) = self.all.upgrade().filter(|_| !is_in_line) {
            all.push(self);
        }
    }
}

impl Handshake {
    /// Computes what there is to be computed now.
    fn step(self: &Arc<Self>) {
        // Before that: what comes meanwhile is another step.
        self.is_in_line.store(false, Ordering::Release);
        let mut work = locked(&self.work);
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        let is_done = work
            .as_mut()
            .is_none_or(|work| work.as_mut().poll(&mut context).is_ready());
        if is_done {
            *work = None;
        }
    }
}

/// A panic in a step ends the process, or a test.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handshakes {
    /// What a handshake with a client comes to, computed by [`Self::run`]; nothing if the server
    /// ends. Who drops this drops the handshake.
    pub(crate) async fn result_of<T: Send + 'static>(
        self: &Arc<Self>,
        from: Origin,
        handshake: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (tell, told) = oneshot::channel();
        let (mut handshake, mut tell) = (Box::pin(handshake), Some(tell));
        let work = poll_fn(move |context| {
            let waits = tell.as_mut();
            if waits.is_none_or(|tell| tell.poll_closed(context).is_ready()) {
                return Poll::Ready(());
            }
            let Poll::Ready(result) = handshake.as_mut().poll(context) else {
                return Poll::Pending;
            };
            // Who has gone meanwhile is told nothing.
            let _ = tell.take().map(|tell| tell.send(result));
            Poll::Ready(())
        });
        Arc::new(Handshake {
            from,
            all: Arc::downgrade(self),
            is_in_line: AtomicBool::new(false),
            work: Mutex::new(Some(Box::pin(work))),
        })
        .wake();
        told.await.ok()
    }

    fn push(&self, handshake: Arc<Handshake>) {
        locked(&self.waiting).lines.push(handshake.from, handshake);
        self.waker.notify_one();
    }

    /// Computes what there is until it is stopped.
    pub(crate) fn run(&self) {
        while let Some(handshake) = self.next() {
            handshake.step();
        }
    }

    fn next(&self) -> Option<Arc<Handshake>> {
        let mut waiting = locked(&self.waiting);
        while !waiting.is_stopped {
            match waiting.pop() {
                Some(handshake) => return Some(handshake),
                None => {
                    waiting = self
                        .waker
                        .wait(waiting)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        None
    }

    /// Ends the thread; what is under way is not computed any more.
    pub(crate) fn stop(&self) {
        let mut waiting = locked(&self.waiting);
        waiting.is_stopped = true;
        let dropped = std::mem::take(&mut waiting.lines);
        drop(waiting);
        drop(dropped);
        self.waker.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    /// A handshake from this address in so many steps, each of which is noted.
    fn handshake(
        steps: usize,
        number: usize,
        done: &Arc<Mutex<Vec<usize>>>,
    ) -> impl Future<Output = usize> + use<> {
        let (done, mut left) = (Arc::clone(done), steps);
        poll_fn(move |context| {
            locked(&done).push(number);
            left -= 1;
            match left {
                0 => Poll::Ready(number),
                _ => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
            }
        })
    }

    type Begun = Pin<Box<dyn Future<Output = Option<usize>>>>;

    /// Begins handshakes from these addresses, in so many steps each.
    fn begin(
        handshakes: &Arc<Handshakes>,
        from: &[u8],
        steps: usize,
        done: &Arc<Mutex<Vec<usize>>>,
    ) -> Vec<Begun> {
        let one = |(number, last): (usize, &u8)| {
            let address = Origin::new(IpAddr::from([10, 0, 0, *last]), false);
            let all = Arc::clone(handshakes);
            let handshake = handshake(steps, number, done);
            let mut begun: Begun = Box::pin(async move { all.result_of(address, handshake).await });
            let context = &mut Context::from_waker(Waker::noop());
            assert!(begun.as_mut().poll(context).is_pending());
            begun
        };
        from.iter().enumerate().map(one).collect()
    }

    fn compute(handshakes: &Handshakes) {
        loop {
            let next = locked(&handshakes.waiting).pop();
            let Some(next) = next else { return };
            next.step();
        }
    }

    #[test]
    fn addresses_take_turns_whatever_one_of_them_brings() {
        let (handshakes, done) = <(Arc<Handshakes>, Arc<Mutex<Vec<usize>>>)>::default();
        let begun = begin(&handshakes, &[1, 1, 1, 1, 2], 2, &done);
        compute(&handshakes);
        assert_eq!(*locked(&done), [0, 4, 1, 4, 2, 3, 0, 1, 2, 3]);
        for (number, mut begun) in begun.into_iter().enumerate() {
            let context = &mut Context::from_waker(Waker::noop());
            assert_eq!(begun.as_mut().poll(context), Poll::Ready(Some(number)));
        }
    }

    #[test]
    fn a_handshake_for_which_nobody_waits_is_not_computed_and_not_kept() {
        let (handshakes, done) = <(Arc<Handshakes>, Arc<Mutex<Vec<usize>>>)>::default();
        let mut begun = begin(&handshakes, &[1, 1, 1], 1, &done);
        drop(begun.remove(1));
        compute(&handshakes);
        assert_eq!(*locked(&done), [0, 2]);
        assert_eq!(locked(&handshakes.waiting).lines.counts(), [0, 0]);
    }

    #[test]
    fn who_comes_from_where_somebody_has_logged_in_waits_for_no_stranger() {
        let threads = HandshakeThreads::start().expect("threads");
        type Boxed = Pin<Box<dyn Future<Output = bool> + Send>>;
        let begin = |origin, handshake: Boxed| threads.of(origin).result_of(origin, handshake);
        let origin = |last, is_familiar| Origin::new([10, 0, 0, last].into(), is_familiar);
        // A step of a stranger's that does not end before the other handshake has.
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let endless: Boxed = Box::pin(async move { told.recv().is_ok() });
        let mut stranger = Box::pin(begin(origin(1, false), endless));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(stranger.as_mut().poll(context).is_pending());
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime");
        let known: Boxed = Box::pin(async { true });
        let known = begin(origin(2, true), known);
        assert_eq!(runtime.block_on(known), Some(true));
        tell.send(()).expect("the stranger waits");
        assert_eq!(runtime.block_on(stranger), Some(true));
    }

    #[test]
    fn a_thread_computes_them_until_it_is_stopped() {
        let (handshakes, done) = <(Arc<Handshakes>, Arc<Mutex<Vec<usize>>>)>::default();
        let mut begun = begin(&handshakes, &[1], 3, &done);
        let runner = Arc::clone(&handshakes);
        let thread = std::thread::spawn(move || runner.run());
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime");
        assert_eq!(runtime.block_on(begun.remove(0)), Some(0));
        handshakes.stop();
        thread.join().expect("ended");
        let mut late = begin(&handshakes, &[1], 1, &done);
        handshakes.stop();
        assert_eq!(runtime.block_on(late.remove(0)), None);
    }
}
