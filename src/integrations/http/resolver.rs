//! Looking names up on the bulkhead's own threads, in bounded number and time.
//!
//! The system's look-up cannot be interrupted. ureq starts a thread for each one that has a time
//! limit, also for addresses and kept-alive connections; a dead DNS server then costs a thread for
//! each request. Here a literal address is no look-up, a name is asked for at most once an age, a
//! dead server is answered from what was known before, and at most two threads ever wait for one.
//! Jobs that ask for the same name at the same time share one look-up.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, after, bounded, never, select};
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
use crate::sync::{Arc, Mutex, Tally, Weak};

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

type Found = io::Result<Vec<SocketAddr>>;

/// Those that wait for one look-up. Whoever goes without its answer drops its own end.
type Askers = Vec<Weak<Sender<Found>>>;

/// How long a job that knows addresses of before waits for fresh ones, at most: within a data centre
/// a name server that is well answers in a few milliseconds.
const PATIENCE: Duration = Duration::from_millis(500);

/// What the jobs and the looking threads share.
pub(super) struct Names {
    look_up: LookUp,
    age: Duration,
    bulkhead: String,
    known: Mutex<HashMap<Name, Known>>,
    /// The look-ups that are under way or about to be, at most [`LOOKERS`], and who waits for each.
    under_way: Mutex<HashMap<Name, Askers>>,
    /// `None` once it is closed: the threads end when they have nothing to do.
    questions: Mutex<Option<Sender<Name>>>,
    asked: Receiver<Name>,
    /// By [`LookUpEnd`].
    ended: [Tally; LookUpEnd::COUNT],
    /// The nanoseconds that jobs have waited.
    waited: Tally,
}

impl Names {
    pub(super) fn new(look_up: LookUp, age: Duration, bulkhead: &str) -> Arc<Self> {
        // It never fills: a question is sent only by whoever has noted it as under way.
        let (questions, asked) = bounded(LOOKERS);
        Arc::new(Self {
            look_up,
            age,
            bulkhead: bulkhead.to_owned(),
            known: Mutex::new(HashMap::new()),
            under_way: Mutex::new(HashMap::new()),
            questions: Mutex::new(Some(questions)),
            asked,
            ended: std::array::from_fn(|_| Tally::new(0)),
            waited: Tally::new(0),
        })
    }

    /// The body of a looking thread.
    pub(super) fn look(&self) {
        while let Ok(name) = self.asked.recv() {
            let mut found = Err(io::Error::other("the look-up function panicked"));
            contain(|| found = (self.look_up)(&name.0, name.1));
            if let Ok(addresses) = &found {
                self.remember(name.clone(), addresses);
            }
            let askers = self.under_way.lock().remove(&name).unwrap_or_default();
            // Those that have gone ask again, and are answered from memory.
            for asker in askers.iter().filter_map(Weak::upgrade) {
                let _ = asker.send(copy_of(&found));
            }
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

    fn ask(
        &self,
        name: &Name,
        seat: &Seat,
        timeout: NextTimeout,
    ) -> Result<Vec<SocketAddr>, Error> {
        let old = match self.known(name) {
            Some((addresses, true)) => return Ok(addresses),
            Some((addresses, false)) => Some(addresses),
            None => None,
        };
        let mut limit = (!timeout.after.is_not_happening()).then_some(*timeout.after);
        if let Some(old) = &old {
            // A name server that is dead or slow must not cost the addresses that worked before. One
            // job sees whether there are fresh ones, and keeps half of its time for the rest.
            if self.under_way.lock().contains_key(name) {
                return Ok(old.clone());
            }
            limit = Some(limit.map_or(PATIENCE, |limit| PATIENCE.min(limit / 2)));
        }
        let start = Instant::now();
        let (end, fresh) = match self.ask_a_thread(name, seat, limit) {
            Ok(addresses) => (LookUpEnd::Answered, Ok(addresses)),
            Err((end, error)) => (end, Err(error)),
        };
        self.ended[end as usize].add(1);
        let waited = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.waited.add(waited);
        fresh.or_else(|error| old.ok_or(error))
    }

    pub(super) fn look_ups(&self) -> LookUps {
        LookUps {
            ended: std::array::from_fn(|index| self.ended[index].get()),
            waited: Duration::from_nanos(self.waited.get()),
        }
    }

    fn ask_a_thread(
        &self,
        name: &Name,
        seat: &Seat,
        limit: Option<Duration>,
    ) -> Result<Vec<SocketAddr>, (LookUpEnd, Error)> {
        let aborted = seat.bell().map_err(|error| (LookUpEnd::TimedOut, error))?;
        let (asker, answered) = bounded(1);
        let asker = Arc::new(asker);
        self.join_look_up(name, &asker)?;
        let late = limit.map_or_else(never, after);
        select! {
            recv(answered) -> answer => match answer {
                Ok(Ok(addresses)) => Ok(addresses),
                Ok(Err(error)) => Err((LookUpEnd::Failed, error.into())),
                Err(_) => Err((LookUpEnd::Failed, Error::HostNotFound)),
            },
            recv(aborted) -> _ => Err((LookUpEnd::TimedOut, seat.why_aborted())),
            recv(late) -> _ => Err((LookUpEnd::TimedOut, Error::Timeout(Timeout::Resolve))),
        }
    }

    /// Has `asker` told what comes of the look-up of `name`, which is begun if it is not under way.
    fn join_look_up(
        &self,
        name: &Name,
        asker: &Arc<Sender<Found>>,
    ) -> Result<(), (LookUpEnd, Error)> {
        let mut under_way = self.under_way.lock();
        if let Some(askers) = under_way.get_mut(name) {
            askers.retain(|asker| asker.strong_count() > 0);
            askers.push(Arc::downgrade(asker));
            return Ok(());
        }
        if under_way.len() == LOOKERS {
            let (host, bulkhead) = (&name.0, &self.bulkhead);
            let error = io::Error::new(
                io::ErrorKind::WouldBlock,
                format!(
                    "cannot look {host:?} up: all {LOOKERS} look-ups of bulkhead `{bulkhead}` wait \
                     for a name server already"
                ),
            );
            return Err((LookUpEnd::Refused, Error::Io(error)));
        }
        under_way.insert(name.clone(), vec![Arc::downgrade(asker)]);
        drop(under_way);
        let sent = self.questions.lock().as_ref().map(|questions| questions.send(name.clone()));
        if !matches!(sent, Some(Ok(()))) {
            self.under_way.lock().remove(name);
            let error = io::Error::other("the runtime is shutting down");
            return Err((LookUpEnd::Failed, Error::Io(error)));
        }
        Ok(())
    }
}

/// An answer for one of several askers.
fn copy_of(found: &Found) -> Found {
    match found {
        Ok(addresses) => Ok(addresses.clone()),
        Err(error) => Err(error.raw_os_error().map_or_else(
            || io::Error::new(error.kind(), error.to_string()),
            io::Error::from_raw_os_error,
        )),
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
            Err(_) => self.0.ask(&(host.to_ascii_lowercase(), port), &seat, timeout)?,
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
