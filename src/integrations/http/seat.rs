//! [`Seat`]: the job that a worker runs at this moment, as its sockets see it.
//!
//! A connection of the agent's pool serves one job after another, on whichever worker. So whom it
//! serves is written on its [`Line`], and an abort breaks a line only if it still serves the job that
//! is to stop: a late abort never hits another job. The same is how a connection is known to be in
//! use: the job that it serves has not ended.

use std::cell::RefCell;
use std::io;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use ureq::unversioned::transport::ShutdownHandle;
use ureq::{Error, Timeout};

use crate::compartment::{Holdings, Parting};
use crate::sync::{Arc, Flag, Mutex, Tally, Weak, thread_local};

/// One job's claim on whatever sockets it uses.
#[derive(Debug)]
pub(super) struct Seat {
    /// When the job's time is up, on the system's clock, which sockets wait by.
    until: Option<Instant>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    aborted: bool,
    /// The line that the job used last. A connection that is closed is gone, whoever used it.
    line: Weak<Line>,
    /// Dropped at the abort, for a job that waits for something else than a socket.
    bell: Option<Sender<()>>,
}

/// One connection, and whom it serves.
pub(super) struct Line {
    /// A seat lasts as long as its job.
    serves: Mutex<Weak<Seat>>,
    socket: Weak<dyn ShutdownHandle>,
    /// It was shut, to free a job.
    was_shut: Flag,
    /// Where it is counted, if it is.
    lines: Option<Arc<Lines>>,
}

/// The connections of one client, for those who count them.
#[derive(Debug, Default)]
pub(super) struct Lines {
    open: Mutex<Vec<Weak<Line>>>,
    opened: Tally,
    failed: Tally,
    /// Closed because they were shut, to free a job.
    shut: Tally,
    closed: Tally,
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
        Arc::new(Self { until, state: Mutex::new(State::default()) })
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
    pub(super) fn abort(self: &Arc<Self>) {
        let line = {
            let mut state = self.state.lock();
            state.aborted = true;
            // WAKE: whoever waits at the bell's other end sees that this one is gone.
            state.bell = None;
            std::mem::take(&mut state.line)
        };
        if let Some(line) = line.upgrade() {
            line.shut_if_it_serves(self);
        }
    }

    /// Claims `line` for what comes next, unless the job is to stop.
    pub(super) fn claim(self: &Arc<Self>, line: &Arc<Line>) -> Result<(), Error> {
        // First the line, then the seat: an abort in between finds either its flag read here or the
        // line that it has to shut.
        *line.serves.lock() = Arc::downgrade(self);
        let mut state = self.state.lock();
        if state.aborted {
            return Err(self.why_aborted());
        }
        state.line = Arc::downgrade(line);
        Ok(())
    }

    /// Whether the job may go on. A socket that was shut looks like one whose peer has ended well, so
    /// this is asked after every read.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.state.lock().aborted { Err(self.why_aborted()) } else { Ok(()) }
    }

    /// What disconnects when the job is to stop. One is enough: a job waits for one thing at a time.
    pub(super) fn bell(&self) -> Result<Receiver<()>, Error> {
        let (bell, rings) = bounded(0);
        let mut state = self.state.lock();
        if state.aborted {
            return Err(self.why_aborted());
        }
        state.bell = Some(bell);
        Ok(rings)
    }

    pub(super) fn why_aborted(&self) -> Error {
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
    /// A connection that was opened by the job of `seat`.
    pub(super) fn open(
        seat: &Arc<Seat>,
        socket: Weak<dyn ShutdownHandle>,
        lines: Option<&Arc<Lines>>,
    ) -> Arc<Self> {
        let line = Arc::new(Self {
            serves: Mutex::new(Arc::downgrade(seat)),
            socket,
            was_shut: Flag::new(),
            lines: lines.cloned(),
        });
        if let Some(lines) = lines {
            lines.count(&line);
        }
        line
    }

    fn shut_if_it_serves(&self, seat: &Arc<Seat>) {
        // Under the lock, so that the line cannot go to another job in between. Shutting a socket
        // down does not block, and no user code runs here.
        let serves = self.serves.lock();
        if std::ptr::eq(serves.as_ptr(), Arc::as_ptr(seat)) {
            if let Some(socket) = self.socket.upgrade() {
                self.was_shut.raise();
                socket.shutdown();
            }
        }
    }

    /// Whether the job that used it last is running still.
    fn is_in_use(&self) -> bool {
        self.serves.lock().strong_count() > 0
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(lines) = &self.lines {
            let tally = if self.was_shut.is_up() { &lines.shut } else { &lines.closed };
            tally.add(1);
        }
    }
}

impl Lines {
    fn count(&self, line: &Arc<Line>) {
        self.opened.add(1);
        let mut open = self.open.lock();
        open.retain(|line| line.strong_count() > 0);
        open.push(Arc::downgrade(line));
    }

    pub(super) fn failed_to_open(&self) {
        self.failed.add(1);
    }

    pub(super) fn holdings(&self) -> Holdings {
        let open = self.open.lock().clone();
        let open: Vec<_> = open.iter().filter_map(Weak::upgrade).collect();
        let in_use = open.iter().filter(|line| line.is_in_use()).count();
        let mut parted = [0; Parting::COUNT];
        parted[Parting::Unwanted as usize] = self.shut.get();
        parted[Parting::Closed as usize] = self.closed.get();
        Holdings {
            in_use,
            idle: open.len() - in_use,
            opened: self.opened.get(),
            failed: self.failed.get(),
            parted,
            ..Holdings::default()
        }
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("in_use", &self.is_in_use()).finish_non_exhaustive()
    }
}
