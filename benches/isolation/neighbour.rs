//! The neighbour and its troubles.

use std::hint::spin_loop;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::Failure;
use crate::common::rounds::Figures;
use crate::origin::Origin;
use crate::site::{QUEUE, Side, Site, THREADS, sleep_until};

/// What is wrong with the neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Idle,
    /// Its server answers correctly, 3 s late; 200 calls a second go there.
    Slow,
    /// All threads are blocked, the queue is full, and callers are refused 100,000 times a second.
    Wedged,
    /// Its database accepts connections and never says a word; 200 calls a second go there.
    Hung,
    /// Each of its 5,000 calls a second panics.
    Panicking,
    /// It has two thirds more calls than it can serve, so that 40 % are refused.
    Overloaded,
    /// All its threads compute without end.
    Burning,
}

/// A trouble that can begin and end.
pub(crate) struct Trouble {
    kind: Kind,
    over: Arc<Over>,
    feeders: Vec<JoinHandle<()>>,
    tried: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
    server: Option<Arc<Origin>>,
}

/// Tells those who cause the trouble, and the jobs that are part of it, that it is over.
#[derive(Debug, Default)]
struct Over {
    flag: AtomicBool,
    gate: Mutex<()>,
    opened: Condvar,
}

impl Over {
    fn is_up(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    fn wait(&self) {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_up() {
            gate = self.opened.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn raise(&self) {
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.flag.store(true, Ordering::Relaxed);
        self.opened.notify_all();
    }
}

/// The payload of the panics that are part of a trouble.
struct Meant;

pub(crate) fn is_meant(panic: &PanicHookInfo<'_>) -> bool {
    panic.payload().is::<Meant>()
}

impl Trouble {
    pub(crate) fn none() -> Self {
        Self::with(Kind::Idle, None)
    }

    pub(crate) fn new(kind: Kind) -> Result<Self, Failure> {
        let server = match kind {
            Kind::Slow => Some(Arc::new(Origin::answering_after(Duration::from_secs(3))?)),
            Kind::Hung => Some(Arc::new(Origin::silent()?)),
            _ => None,
        };
        Ok(Self::with(kind, server))
    }

    fn with(kind: Kind, server: Option<Arc<Origin>>) -> Self {
        Self {
            kind,
            over: Arc::default(),
            feeders: Vec::new(),
            tried: Arc::default(),
            refused: Arc::default(),
            server,
        }
    }

    /// Returns when the trouble is at its height.
    pub(crate) fn begin(&mut self, site: &Arc<dyn Site>) -> Result<(), Failure> {
        self.over = Arc::default();
        self.tried.store(0, Ordering::Relaxed);
        self.refused.store(0, Ordering::Relaxed);
        // How many calls come each time, and how long it is until the next come.
        let (feeders, calls, gap) = match self.kind {
            Kind::Idle => return Ok(()),
            Kind::Slow | Kind::Hung => (1, 1, Duration::from_millis(5)),
            Kind::Wedged => (2, 100, Duration::from_millis(2)),
            Kind::Panicking => (1, 5, Duration::from_millis(1)),
            // Eight threads serve 790 a second.
            Kind::Overloaded => (1, 4, Duration::from_micros(3_040)),
            Kind::Burning => (1, 1, Duration::from_millis(2)),
        };
        if self.kind != Kind::Panicking {
            // The height comes at once, and not after seconds of calls.
            for _ in 0..2 * (THREADS + QUEUE) {
                let _ = site.submit(Side::Neighbour, self.job());
            }
        }
        for _ in 0..feeders {
            let site = Arc::clone(site);
            let this = self.clone_for_feeder();
            self.feeders.push(thread::Builder::new().name("feeder".into()).spawn(move || {
                this.feed(&site, calls, gap);
            })?);
        }
        thread::sleep(Duration::from_millis(20));
        Ok(())
    }

    fn clone_for_feeder(&self) -> Self {
        Self {
            kind: self.kind,
            over: Arc::clone(&self.over),
            feeders: Vec::new(),
            tried: Arc::clone(&self.tried),
            refused: Arc::clone(&self.refused),
            server: self.server.clone(),
        }
    }

    fn feed(&self, site: &Arc<dyn Site>, calls: u32, gap: Duration) {
        let mut due = Instant::now();
        while !self.over.is_up() {
            for _ in 0..calls {
                self.tried.fetch_add(1, Ordering::Relaxed);
                if !site.submit(Side::Neighbour, self.job()) {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
            }
            due += gap;
            sleep_until(due);
        }
    }

    fn job(&self) -> Box<dyn FnOnce() + Send> {
        let over = Arc::clone(&self.over);
        let address = self.server.as_ref().map(|server| server.address());
        match self.kind {
            Kind::Idle => Box::new(|| ()),
            Kind::Wedged => Box::new(move || over.wait()),
            Kind::Panicking => Box::new(|| std::panic::panic_any(Meant)),
            Kind::Overloaded => Box::new(|| thread::sleep(Duration::from_millis(10))),
            Kind::Burning => Box::new(move || {
                while !over.is_up() {
                    spin_loop();
                }
            }),
            Kind::Slow => Box::new(move || {
                if !over.is_up() {
                    let _ = ask(address, b"GET / HTTP/1.1\r\n\r\n");
                }
            }),
            // What a client of PostgreSQL says first, version 3.0 of the protocol and the user.
            Kind::Hung => Box::new(move || {
                if !over.is_up() {
                    let _ = ask(address, b"\0\0\0\x13\0\x03\0\0user\0shop\0\0");
                }
            }),
        }
    }

    /// Ends the trouble, waits until nothing is left of it, and says what the neighbour's callers saw.
    pub(crate) fn end(&mut self) -> Result<Figures, Failure> {
        self.over.raise();
        if let Some(server) = &self.server {
            server.hang_up();
        }
        for feeder in self.feeders.drain(..) {
            feeder.join().map_err(|_| "a feeder panicked")?;
        }
        if self.kind == Kind::Idle {
            return Ok(Vec::new());
        }
        if let (Kind::Hung, Some(server)) = (self.kind, &self.server) {
            // Those who connected meanwhile.
            thread::sleep(Duration::from_millis(10));
            server.hang_up();
        }
        let tried = self.tried.load(Ordering::Relaxed);
        let refused = self.refused.load(Ordering::Relaxed);
        #[expect(clippy::cast_precision_loss, reason = "some hundreds of thousands")]
        let percent = refused as f64 * 100.0 / tried.max(1) as f64;
        #[expect(clippy::cast_precision_loss, reason = "some hundreds of thousands")]
        let tried = tried as f64;
        Ok(vec![("neighbour_calls", tried), ("neighbour_refused_percent", percent)])
    }
}

/// Says something to a server and waits for a word.
fn ask(address: Option<std::net::SocketAddr>, word: &[u8]) -> std::io::Result<()> {
    let address = address.ok_or(std::io::ErrorKind::NotFound)?;
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(word)?;
    let mut answer = [0; 64];
    stream.read(&mut answer).map(drop)
}
