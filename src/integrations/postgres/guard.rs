//! [`Guard`]: a connection's socket that gives its thread back.
//!
//! The client hands its raw socket to a connector "for TLS" and takes back what that makes of it. Ours
//! puts an end to every wait: a deadline, and an abort from another thread. With direct negotiation
//! nothing is sent before, so TLS is ours to agree on, see [`Tls`], and its handshake ends in time like
//! all else. No setting of the client or of the system does as much: not against a server that accepts
//! and stays silent.
//!
//! It stands above TLS, since it reads the server's messages: a wait up here is a wait of the socket
//! below.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use ::postgres::Socket;
use ::postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::frames::{Frames, Rest};
use super::tls::{Stream, Tls};
use crate::contain::drop_contained;
use crate::sync::{Arc, Mutex};

/// What a connection's owner says to its socket, and learns from it.
#[derive(Debug, Default)]
pub(super) struct Control(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    until: Option<Instant>,
    aborted: bool,
    /// A wait was cut off: the connection is in the middle of something, for good.
    cut_off: bool,
    /// Of the task that waits for the socket, which the worker itself drives.
    waker: Option<Waker>,
    frames: Frames,
}

impl Control {
    /// Every wait from now on ends at `until`; an earlier abort is history.
    pub(super) fn limit(&self, until: Option<Instant>) {
        let mut state = self.0.lock();
        state.until = until;
        state.aborted = false;
    }

    pub(super) fn limit_to(&self, limit: Duration) {
        self.limit(Instant::now().checked_add(limit));
    }

    /// Every wait from now on ends within `limit`, or earlier if it was to before.
    pub(super) fn limit_further(&self, limit: Duration) {
        let mut state = self.0.lock();
        let within = Instant::now().checked_add(limit);
        state.until = match (state.until, within) {
            (Some(until), Some(within)) => Some(until.min(within)),
            (until, within) => until.or(within),
        };
    }

    /// Ends the wait that is under way, and every other until the next `limit`.
    pub(super) fn abort(&self) {
        let waker = {
            let mut state = self.0.lock();
            state.aborted = true;
            state.waker.take()
        };
        // LOCK: free, a waker is code of the client's runtime.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether a wait was cut off, so that the server may still be working.
    pub(super) fn was_cut_off(&self) -> bool {
        self.0.lock().cut_off
    }

    /// What the server said last.
    pub(super) fn rest(&self) -> Rest {
        self.0.lock().frames.rest()
    }

    /// Says why a wait must end now; otherwise leaves `waker` to be woken by an abort.
    fn check(&self, waker: &Waker) -> Result<Option<Instant>, io::Error> {
        let mine = waker.clone();
        let (verdict, old) = {
            let mut state = self.0.lock();
            let verdict = if state.aborted {
                Err(io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    "the job was cancelled, or its deadline passed, while it used the connection",
                ))
            } else if state.until.is_some_and(|until| until <= Instant::now()) {
                Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the server did not answer before the job's deadline",
                ))
            } else {
                Ok(state.until)
            };
            state.cut_off |= verdict.is_err();
            (verdict, state.waker.replace(mine))
        };
        // LOCK: free, see `abort`.
        drop_contained(old);
        verdict
    }
}

/// See the module.
pub(super) struct Guard {
    stream: Stream,
    limit: Limit,
}

/// Ends waits when [`Control`] says so.
struct Limit {
    control: Arc<Control>,
    /// Made when first needed, since it must be made inside the client's runtime.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Limit {
    /// The other side is not ready: says whether the wait for it is over all the same.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            let until = match self.control.check(cx.waker()) {
                Err(over) => return Poll::Ready(over),
                Ok(None) => return Poll::Pending,
                Ok(Some(until)) => tokio::time::Instant::from_std(until),
            };
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            if timer.deadline() != until {
                timer.as_mut().reset(until);
            }
            // When it has rung, the deadline has come, and `check` says so.
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn or_wait<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match polled {
            Poll::Pending => self.wait(cx).map(Err),
            ready @ Poll::Ready(_) => ready,
        }
    }
}

impl AsyncRead for Guard {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, limit } = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(stream).poll_read(cx, buffer);
        limit.control.0.lock().frames.received(&buffer.filled()[before..]);
        // An answer without end is not ready for ever: tokio has a socket pause now and then.
        limit.or_wait(cx, polled)
    }
}

impl AsyncWrite for Guard {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, limit } = self.get_mut();
        // Also when the socket is ready: nothing more is to be begun then.
        limit.control.check(cx.waker())?;
        let polled = Pin::new(stream).poll_write(cx, bytes);
        if matches!(polled, Poll::Ready(Ok(1..))) {
            limit.control.0.lock().frames.sent();
        }
        limit.or_wait(cx, polled)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, limit } = self.get_mut();
        let polled = Pin::new(stream).poll_flush(cx);
        limit.or_wait(cx, polled)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, limit } = self.get_mut();
        let polled = Pin::new(stream).poll_shutdown(cx);
        limit.or_wait(cx, polled)
    }
}

impl TlsStream for Guard {
    fn channel_binding(&self) -> ChannelBinding {
        self.stream.channel_binding()
    }
}

/// Puts a [`Guard`] around the socket of one connection.
pub(super) struct Guarding {
    control: Arc<Control>,
    tls: Tls,
    /// Whose certificate the server must have.
    host: String,
    /// When the last of several hosts must have answered, and how much of that time one may take.
    share: Option<(Instant, Duration)>,
}

impl Guarding {
    /// For one host, as `control` says.
    pub(super) const fn new(control: Arc<Control>, tls: Tls) -> Self {
        Self { control, tls, host: String::new(), share: None }
    }

    /// For several hosts in turn, until `until` in all: one that is silent leaves time for the next.
    pub(super) fn in_turn(self, until: Instant, each: Duration) -> Self {
        Self { share: Some((until, each)), ..self }
    }
}

impl MakeTlsConnect<Socket> for Guarding {
    type Stream = Guard;
    type TlsConnect = Self;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Self> {
        let (control, tls) = (Arc::clone(&self.control), self.tls.clone());
        Ok(Self { control, tls, host: host.to_owned(), share: self.share })
    }
}

impl TlsConnect<Socket> for Guarding {
    type Stream = Guard;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Guard>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        let Self { control, tls, host, share } = self;
        if let Some((until, each)) = share {
            control.limit(Some(until));
            control.limit_further(each);
        }
        Box::pin(async move {
            let mut limit = Limit { control, timer: None };
            let mut opening = pin!(tls.open(socket, host));
            let stream = poll_fn(|cx| {
                let polled = opening.as_mut().poll(cx);
                limit.or_wait(cx, polled)
            });
            let stream = stream.await?;
            Ok(Guard { stream, limit })
        })
    }
}
