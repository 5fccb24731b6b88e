//! Looking names up on the bulkhead's own threads, in bounded number and time.
//!
//! The system's look-up cannot be interrupted. ureq starts a thread for each one that has a time
//! limit, also for addresses and kept-alive connections; a dead DNS server then costs a thread for
//! each request. Here a literal address is no look-up, a name is asked for at most once an age, a
//! dead server is answered from what was known before, and at most two threads ever wait for one.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::http::uri::Scheme;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;
use ureq::{Error, Timeout};

use super::seat::Seat;
use super::transport::within;
use crate::compartment::{LookUpEnd, LookUps};
use crate::contain::contain;
use crate::sync::{Arc, Mutex, Tally};

/// What looks a name up: the system, or a function of the user's.
pub(super) type LookUp = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// How many look-ups may be under way, each on a thread of its own.
pub(super) const LOOKERS: usize = 2;

/// The most names that are remembered. One bulkhead talks to one dependency: a handful.
const NAMES: usize = 256;

pub(super) fn system_look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

type Name = (String, u16);

struct Known {
    addresses: Vec<SocketAddr>,
    since: Instant,
}

struct Question {
    name: Name,
    answer: Sender<io::Result<Vec<SocketAddr>>>,
}

/// What the jobs and the looking threads share.
pub(super) struct Names {
    look_up: LookUp,
    age: Duration,
    bulkhead: String,
    known: Mutex<HashMap<Name, Known>>,
    /// Threads that look a name up, or are about to.
    busy: Mutex<usize>,
    /// `None` once it is closed: the threads end when they have nothing to do.
    questions: Mutex<Option<Sender<Question>>>,
    asked: Receiver<Question>,
    /// By [`LookUpEnd`].
    ended: [Tally; LookUpEnd::COUNT],
    /// The nanoseconds that jobs have waited.
    waited: Tally,
}

impl Names {
    pub(super) fn new(look_up: LookUp, age: Duration, bulkhead: &str) -> Arc<Self> {
        // It never fills: a question is sent only by whoever has counted a thread as busy with it.
        let (questions, asked) = bounded(LOOKERS);
        Arc::new(Self {
            look_up,
            age,
            bulkhead: bulkhead.to_owned(),
            known: Mutex::new(HashMap::new()),
            busy: Mutex::new(0),
            questions: Mutex::new(Some(questions)),
            asked,
            ended: std::array::from_fn(|_| Tally::new(0)),
            waited: Tally::new(0),
        })
    }

    /// The body of a looking thread.
    pub(super) fn look(&self) {
        while let Ok(Question { name, answer }) = self.asked.recv() {
            let mut found = Err(io::Error::other("the look-up function panicked"));
            contain(|| found = (self.look_up)(&name.0, name.1));
            if let Ok(addresses) = &found {
                self.remember(name, addresses);
            }
            *self.busy.lock() -= 1;
            // Its asker may have gone; then the answer serves the next one.
            let _ = answer.send(found);
        }
    }

    pub(super) fn close(&self) {
        self.questions.lock().take();
    }

    fn remember(&self, name: Name, addresses: &[SocketAddr]) {
        let mut known = self.known.lock();
        if known.len() >= NAMES && !known.contains_key(&name) {
            known.clear();
        }
        known.insert(name, Known { addresses: addresses.to_vec(), since: Instant::now() });
    }

    /// What is known of `name`, and whether it is young enough.
    fn known(&self, name: &Name) -> Option<(Vec<SocketAddr>, bool)> {
        let known = self.known.lock();
        let known = known.get(name)?;
        Some((known.addresses.clone(), known.since.elapsed() < self.age))
    }

    fn ask(&self, name: &Name, timeout: NextTimeout) -> Result<Vec<SocketAddr>, Error> {
        let old = match self.known(name) {
            Some((addresses, true)) => return Ok(addresses),
            Some((addresses, false)) => Some(addresses),
            None => None,
        };
        let start = Instant::now();
        let fresh = self.ask_a_thread(name, timeout);
        self.count(&fresh, start.elapsed());
        // A DNS server that is dead or slow must not cost the addresses that worked before.
        fresh.or_else(|error| old.ok_or(error))
    }

    fn count(&self, answer: &Result<Vec<SocketAddr>, Error>, waited: Duration) {
        let end = match answer {
            Ok(_) => LookUpEnd::Answered,
            Err(Error::Timeout(_)) => LookUpEnd::TimedOut,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                LookUpEnd::Refused
            }
            Err(_) => LookUpEnd::Failed,
        };
        self.ended[end as usize].add(1);
        self.waited.add(u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn look_ups(&self) -> LookUps {
        LookUps {
            ended: std::array::from_fn(|index| self.ended[index].get()),
            waited: Duration::from_nanos(self.waited.get()),
        }
    }

    fn ask_a_thread(&self, name: &Name, timeout: NextTimeout) -> Result<Vec<SocketAddr>, Error> {
        {
            let mut busy = self.busy.lock();
            if *busy == LOOKERS {
                let (host, bulkhead) = (&name.0, &self.bulkhead);
                return Err(Error::Io(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    format!(
                        "cannot look {host:?} up: all {LOOKERS} look-ups of bulkhead `{bulkhead}` \
                         wait for a name server already"
                    ),
                )));
            }
            *busy += 1;
        }
        let (answer, answered) = bounded(1);
        let question = Question { name: name.clone(), answer };
        let sent = self.questions.lock().as_ref().map(|questions| questions.send(question));
        if !matches!(sent, Some(Ok(()))) {
            *self.busy.lock() -= 1;
            return Err(Error::Io(io::Error::other("the runtime is shutting down")));
        }
        let answer = if timeout.after.is_not_happening() {
            answered.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            answered.recv_timeout(*timeout.after)
        };
        match answer {
            Ok(addresses) => Ok(addresses?),
            Err(RecvTimeoutError::Timeout) => Err(Error::Timeout(Timeout::Resolve)),
            Err(RecvTimeoutError::Disconnected) => Err(Error::HostNotFound),
        }
    }
}

/// ureq's view of it.
#[derive(Debug)]
pub(super) struct Bounded(pub(super) Arc<Names>);

impl Resolver for Bounded {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let seat = Seat::here()?;
        seat.check()?;
        let timeout = within(&seat, timeout)?;
        let host = uri.host().ok_or_else(|| Error::BadUri(uri.to_string()))?;
        let port = uri.port_u16().unwrap_or_else(|| default_port(uri.scheme()));
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        let addresses = match literal.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => self.0.ask(&(host.to_ascii_lowercase(), port), timeout)?,
        };
        let mut resolved = self.empty();
        let family = config.ip_family();
        let wanted = family.keep_wanted(addresses.into_iter());
        // As many as the array has room for.
        for address in wanted.take(16) {
            resolved.push(address);
        }
        if resolved.is_empty() { Err(Error::HostNotFound) } else { Ok(resolved) }
    }
}

fn default_port(scheme: Option<&Scheme>) -> u16 {
    if scheme == Some(&Scheme::HTTPS) { 443 } else { 80 }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names")
            .field("bulkhead", &self.bulkhead)
            .field("age", &self.age)
            .finish_non_exhaustive()
    }
}
