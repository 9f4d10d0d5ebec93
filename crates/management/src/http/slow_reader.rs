//! A socket whose peer must take what it is sent: who does not read is cut off.

use crate::http::connection_limiter::ConnectionPermit;
use leveret_types::limits::{HTTP_UNREAD_BYTES_MIN, HTTP_UNREAD_MS_MAX};
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream whose writes fail when its peer has taken less than [`HTTP_UNREAD_BYTES_MIN`] within
/// [`HTTP_UNREAD_MS_MAX`] of a write that had to wait. Its permit hears of all that moves.
pub(crate) struct Paced<S> {
    stream: S,
    permit: Arc<ConnectionPermit>,
    patience: Duration,
    deadline: Pin<Box<Sleep>>,
    /// What the peer has taken since a write had to wait; none while none has to.
    taken: Option<usize>,
}

impl<S> Paced<S> {
    /// Must be called within the runtime.
    pub(crate) fn new(stream: S, permit: Arc<ConnectionPermit>) -> Self {
        Self::with_patience(stream, permit, Duration::from_millis(HTTP_UNREAD_MS_MAX))
    }

    fn with_patience(stream: S, permit: Arc<ConnectionPermit>, patience: Duration) -> Self {
        Self {
            stream,
            permit,
            patience,
            deadline: Box::pin(tokio::time::sleep(patience)),
            taken: None,
        }
    }

    /// What a write comes to, when the peer's pace is regarded.
    fn regard(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) => {
                self.permit.is_active();
                let taken = self.taken.map(|taken| taken.saturating_add(bytes));
                self.taken = taken.filter(|taken| *taken < HTTP_UNREAD_BYTES_MIN);
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(error) => Poll::Ready(error),
            Poll::Pending => {
                if self.taken.is_none() {
                    self.taken = Some(0);
                    let deadline = Instant::now() + self.patience;
                    self.deadline.as_mut().reset(deadline);
                }
                match self.deadline.as_mut().poll(context) {
                    Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.permit.is_active();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.regard(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.regard(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        let flushed = flushed.map_ok(|()| 0);
        let flushed = self.regard(context, flushed);
        if matches!(flushed, Poll::Ready(Ok(_))) {
            // All that there was has been taken.
            self.taken = None;
        }
        flushed.map_ok(|_| ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::connection_limiter::ConnectionLimiter;
    use std::future::poll_fn;
    use std::net::Ipv4Addr;
    use std::task::Waker;

    /// A peer that takes nothing.
    struct Stuck;

    impl AsyncWrite for Stuck {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    fn permit() -> Arc<ConnectionPermit> {
        ConnectionLimiter::new().admit(Ipv4Addr::LOCALHOST.into()).0
    }

    fn within_a_runtime<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build();
        runtime.expect("a runtime").block_on(future)
    }

    #[test]
    fn who_does_not_read_is_cut_off() {
        let written = within_a_runtime(async {
            let mut paced = Paced::with_patience(Stuck, permit(), Duration::from_millis(5));
            poll_fn(|context| Pin::new(&mut paced).poll_write(context, b"x")).await
        });
        assert_eq!(
            written.expect_err("cut off").kind(),
            io::ErrorKind::TimedOut
        );
    }

    #[test]
    fn a_wait_ends_when_enough_was_taken_or_all_was() {
        within_a_runtime(async {
            let mut paced = Paced::new(Stuck, permit());
            let context = &mut Context::from_waker(Waker::noop());
            assert!(paced.regard(context, Poll::Pending).is_pending());
            let _ = paced.regard(context, Poll::Ready(Ok(HTTP_UNREAD_BYTES_MIN - 1)));
            assert_eq!(paced.taken, Some(HTTP_UNREAD_BYTES_MIN - 1));
            // It does not begin anew when the next write has to wait, too.
            assert!(paced.regard(context, Poll::Pending).is_pending());
            assert_eq!(paced.taken, Some(HTTP_UNREAD_BYTES_MIN - 1));
            let _ = paced.regard(context, Poll::Ready(Ok(1)));
            assert_eq!(paced.taken, None);
        });
    }
}
