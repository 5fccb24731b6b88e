//! [`Seat`]: the job that a worker runs at this moment, as its sockets see it.
//!
//! A connection of the agent's pool serves one job after another, on whichever worker. So whom it
//! serves is written on its [`Line`], and an abort breaks a line only if it still serves the job that
//! is to stop: a late abort never hits another job.

use std::cell::RefCell;
use std::io;
use std::time::{Duration, Instant};

use ureq::unversioned::transport::ShutdownHandle;
use ureq::{Error, Timeout};

use crate::sync::{Arc, Mutex, Weak, next_id, thread_local};

/// One job's claim on whatever sockets it uses.
#[derive(Debug)]
pub(super) struct Seat {
    id: u64,
    /// When the job's time is up, on the system's clock, which sockets wait by.
    until: Option<Instant>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    aborted: bool,
    /// The line that the job used last.
    line: Option<Arc<Line>>,
}

/// One connection, and whom it serves.
pub(super) struct Line {
    serves: Mutex<u64>,
    socket: Weak<dyn ShutdownHandle>,
}

thread_local! {
    static SEAT: RefCell<Option<Arc<Seat>>> = const { RefCell::new(None) };
}

/// Keeps a job's seat on this thread, until it is dropped.
pub(super) struct Seated(());

impl Drop for Seated {
    fn drop(&mut self) {
        SEAT.with(|seat| seat.borrow_mut().take());
    }
}

impl Seat {
    pub(super) fn new(remaining: Option<Duration>) -> Arc<Self> {
        let until = remaining.and_then(|remaining| Instant::now().checked_add(remaining));
        Arc::new(Self { id: next_id(), until, state: Mutex::new(State::default()) })
    }

    pub(super) fn take(self: &Arc<Self>) -> Seated {
        SEAT.with(|seat| *seat.borrow_mut() = Some(Arc::clone(self)));
        Seated(())
    }

    /// The seat of the job that runs on this thread.
    pub(super) fn here() -> Result<Arc<Self>, Error> {
        SEAT.with(|seat| seat.borrow().clone()).ok_or_else(|| {
            Error::Io(io::Error::other(
                "this connection belongs to a bulkhead and is used outside of its jobs; make the \
                 request, and read the whole body, inside the closure given to `Client::call`",
            ))
        })
    }

    /// Frees the job if it is blocked on a socket, and fails whatever it tries next.
    pub(super) fn abort(&self) {
        let line = {
            let mut state = self.state.lock();
            state.aborted = true;
            state.line.take()
        };
        if let Some(line) = line {
            line.shut_if_it_serves(self.id);
        }
    }

    /// Claims `line` for what comes next, unless the job is to stop.
    pub(super) fn claim(&self, line: &Arc<Line>) -> Result<(), Error> {
        // First the line, then the seat: an abort in between finds either its flag read here or the
        // line that it has to shut.
        *line.serves.lock() = self.id;
        let mut state = self.state.lock();
        if state.aborted {
            return Err(self.why_aborted());
        }
        state.line = Some(Arc::clone(line));
        Ok(())
    }

    /// Whether the job may go on. A socket that was shut looks like one whose peer has ended well, so
    /// this is asked after every read.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.state.lock().aborted { Err(self.why_aborted()) } else { Ok(()) }
    }

    fn why_aborted(&self) -> Error {
        if self.until.is_some_and(|until| until <= Instant::now()) {
            return Error::Timeout(Timeout::Global);
        }
        // Of no kind that says "disconnected": ureq takes those for the end of a body that ends with
        // its connection, and a body that was cut off would look whole.
        Error::Io(io::Error::other("the job was cancelled while it used the connection"))
    }

    /// The time that is left; an error when there is none.
    pub(super) fn left(&self) -> Result<Option<Duration>, Error> {
        match self.until.map(|until| until.saturating_duration_since(Instant::now())) {
            Some(Duration::ZERO) => Err(Error::Timeout(Timeout::Global)),
            left => Ok(left),
        }
    }
}

impl Line {
    pub(super) fn new(socket: Weak<dyn ShutdownHandle>) -> Arc<Self> {
        Arc::new(Self { serves: Mutex::new(0), socket })
    }

    fn shut_if_it_serves(&self, seat: u64) {
        // Under the lock, so that the line cannot go to another job in between. Shutting a socket
        // down does not block, and no user code runs here.
        let serves = self.serves.lock();
        if *serves == seat {
            if let Some(socket) = self.socket.upgrade() {
                socket.shutdown();
            }
        }
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("serves", &*self.serves.lock()).finish_non_exhaustive()
    }
}
