//! The visitors: an open-loop load generator, and a prober that asks for `/health`.
//!
//! Open loop means that requests are sent by the clock, whether or not earlier ones have been
//! answered, and that latency counts from the moment that a request was due. A service that stalls
//! therefore cannot slow its own visitors down and look better for it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, unbounded};

use crate::front::MISSING_PARTS;
use crate::page::Failure;

/// Pages asked for in a second.
pub(crate) const RATE: u32 = 150;

/// Requests that may be unanswered at once. The service keeps none longer than about 2 s, which is
/// 300 requests, so this is never the limit.
const MOST_OUTSTANDING: usize = 2_000;

/// A visitor who has waited this long goes away. Nothing in the service takes as long.
const PATIENCE: Duration = Duration::from_secs(10);

const PROBE_EVERY: Duration = Duration::from_millis(50);
const PROBE_PATIENCE: Duration = Duration::from_secs(1);

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A page with all its parts.
    Whole,
    /// A page without one or more of its optional parts.
    Partial,
    /// No page: an error status, or no answer.
    Failed,
}

/// One request of a visitor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// When it was due, from the start of the run.
    pub(crate) due: Duration,
    /// How much later it was sent: the generator's own error.
    pub(crate) late: Duration,
    /// From the moment that it was due to the end of the answer.
    pub(crate) took: Duration,
    pub(crate) outcome: Outcome,
}

/// All that the visitors have seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) pages: Vec<Sample>,
    pub(crate) probes: Vec<Sample>,
}

/// The generator and the prober at work.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    sending: JoinHandle<io::Result<Vec<Sample>>>,
    probing: JoinHandle<Vec<Sample>>,
}

impl Load {
    pub(crate) fn start(service: SocketAddr, epoch: Instant) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let sending = thread::Builder::new().name("visitors".to_owned()).spawn({
            let stop = Arc::clone(&stop);
            move || send(service, epoch, &stop)
        })?;
        let probing = thread::Builder::new().name("prober".to_owned()).spawn({
            let stop = Arc::clone(&stop);
            move || probe(service, epoch, &stop)
        })?;
        Ok(Self { stop, sending, probing })
    }

    /// Sends no more and waits for the answers that are still to come.
    pub(crate) fn stop(self) -> Result<Seen, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        let pages = self.sending.join().map_err(|_| "the load generator panicked")??;
        let probes = self.probing.join().map_err(|_| "the prober panicked")?;
        Ok(Seen { pages, probes })
    }
}

/// Keeps the schedule: each request goes to an idle visitor, and to a new one if there is none.
fn send(service: SocketAddr, epoch: Instant, stop: &AtomicBool) -> io::Result<Vec<Sample>> {
    let samples = Arc::new(Mutex::new(Vec::new()));
    let idle = Arc::new(AtomicUsize::new(0));
    let (requests, queue) = unbounded();
    let mut visitors = Vec::new();
    let mut due = epoch.elapsed();
    let mut product = 0;
    while !stop.load(Ordering::Relaxed) {
        due += Duration::from_secs(1) / RATE;
        product = 1 + product % 100;
        thread::sleep(due.saturating_sub(epoch.elapsed()));
        let taken = idle.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if taken.is_err() && visitors.len() < MOST_OUTSTANDING {
            let (queue, idle, samples) = (Receiver::clone(&queue), idle.clone(), samples.clone());
            let visitor = move || visit(service, epoch, &queue, &idle, &samples);
            visitors.push(thread::Builder::new().spawn(visitor)?);
        }
        // The visitors hold the other end until this one is dropped.
        let _ = requests.send((due, product));
    }
    drop(requests);
    for visitor in visitors {
        let _ = visitor.join();
    }
    let mut samples = std::mem::take(&mut *samples.lock().unwrap_or_else(PoisonError::into_inner));
    samples.sort_by_key(|sample: &Sample| sample.due);
    Ok(samples)
}

/// The life of one visitor: one request at a time, over one connection.
fn visit(
    service: SocketAddr,
    epoch: Instant,
    queue: &Receiver<(Duration, u32)>,
    idle: &AtomicUsize,
    samples: &Mutex<Vec<Sample>>,
) {
    let mut browser = Browser::new(service, PATIENCE);
    for (due, product) in queue {
        let late = epoch.elapsed().saturating_sub(due);
        let outcome = browser.get(&format!("/product/{product}"));
        let took = epoch.elapsed().saturating_sub(due);
        let sample = Sample { due, late, took, outcome };
        samples.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
        idle.fetch_add(1, Ordering::Relaxed);
    }
}

fn probe(service: SocketAddr, epoch: Instant, stop: &AtomicBool) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut browser = Browser::new(service, PROBE_PATIENCE);
    let mut due = epoch.elapsed();
    while !stop.load(Ordering::Relaxed) {
        due += PROBE_EVERY;
        thread::sleep(due.saturating_sub(epoch.elapsed()));
        let late = epoch.elapsed().saturating_sub(due);
        let outcome = browser.get("/health");
        let took = epoch.elapsed().saturating_sub(due);
        samples.push(Sample { due, late, took, outcome });
    }
    samples
}

/// An HTTP client with one connection, opened anew after an error.
struct Browser {
    service: SocketAddr,
    patience: Duration,
    connection: Option<BufReader<TcpStream>>,
}

impl Browser {
    fn new(service: SocketAddr, patience: Duration) -> Self {
        Self { service, patience, connection: None }
    }

    fn get(&mut self, path: &str) -> Outcome {
        self.try_get(path).unwrap_or_else(|_| {
            self.connection = None;
            Outcome::Failed
        })
    }

    fn try_get(&mut self, path: &str) -> io::Result<Outcome> {
        if self.connection.is_none() {
            let stream = TcpStream::connect_timeout(&self.service, self.patience)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(self.patience))?;
            self.connection = Some(BufReader::new(stream));
        }
        let Some(connection) = &mut self.connection else { return Ok(Outcome::Failed) };
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        connection.get_mut().write_all(request.as_bytes())?;

        let mut line = String::new();
        connection.read_line(&mut line)?;
        let found = line.split(' ').nth(1) == Some("200");
        let (mut length, mut partial) = (None, false);
        loop {
            line.clear();
            if connection.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("Content-Length") {
                length = value.trim().parse().ok();
            }
            partial |= name.eq_ignore_ascii_case(MISSING_PARTS);
        }
        let length: usize = length.ok_or(io::ErrorKind::InvalidData)?;
        connection.read_exact(&mut vec![0; length])?;
        Ok(match (found, partial) {
            (false, _) => Outcome::Failed,
            (true, true) => Outcome::Partial,
            (true, false) => Outcome::Whole,
        })
    }
}
