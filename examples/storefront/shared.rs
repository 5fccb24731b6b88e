//! The service without bulkheads: all calls to dependencies share one pool of 200 threads.
//!
//! It is tuned as a good engineer would tune it. The pool has 25 times the threads that the healthy
//! load needs (2.25 for pricing + 4.5 for reviews + 6 for recommendations = 12.75 of 200 busy). Every
//! call has a limit of 2 s, there is a connection for every thread, and a job whose page has given
//! up is thrown away instead of run.
//!
//! What it cannot do is keep reviews from taking every thread. When a review takes 3 s, 150 of them
//! a second need 450 threads. After about 1.4 s all 200 are held, and pricing, which is fine, waits
//! behind them. The limit frees the page after 2 s, but not the thread: `SQLite` cannot give up a
//! statement that runs. PostgreSQL has a statement limit, and it is set, to 2 s: 300 threads are
//! needed instead of 450, so the pool fills all the same. While PostgreSQL hangs no limit of the
//! client, the pool or the server brings a thread back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use crate::clients::{CALL_LIMIT, Clients};
use crate::dependencies::Dependencies;
use crate::page::{Calls, Failure, Page, Part, Storefront, Unavailable};

pub(crate) const THREADS: usize = 200;

/// A call to a dependency that waits for a thread.
struct Job {
    /// From here on the page has given up and nobody wants the answer.
    wanted_until: Instant,
    run: Box<dyn FnOnce() + Send>,
}

/// The shared pool and the clients that its threads use.
pub(crate) struct SharedPool {
    clients: Arc<Clients>,
    /// Taken by `drop`, which ends the threads.
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    gauges: Arc<Gauges>,
}

struct Gauges {
    pages: AtomicU64,
    /// For each thread, since when it carries out a call.
    busy_since: Vec<Mutex<Option<Instant>>>,
}

impl Gauges {
    /// When each call began that a thread carries out now.
    fn calls(&self) -> impl Iterator<Item = Instant> {
        self.busy_since.iter().filter_map(|since| *since.lock().expect("nothing panics under it"))
    }

    fn set(&self, thread: usize, since: Option<Instant>) {
        *self.busy_since[thread].lock().expect("nothing panics under it") = since;
    }
}

impl SharedPool {
    pub(crate) fn start(dependencies: &Dependencies) -> Result<Self, Failure> {
        let reviews = dependencies.reviews.pool(u32::try_from(THREADS)?, CALL_LIMIT)?;
        let gauges = Arc::new(Gauges {
            pages: AtomicU64::new(0),
            busy_since: (0..THREADS).map(|_| Mutex::new(None)).collect(),
        });
        // Unbounded is safe here: a page waits 2 s at most and its jobs lapse with it, so the queue
        // never holds more than 2 s of arrivals.
        let (jobs, queue) = unbounded();
        let threads = (0..THREADS)
            .map(|number| {
                let queue = queue.clone();
                let gauges = Arc::clone(&gauges);
                thread::Builder::new()
                    .name(format!("shared-{number}"))
                    .spawn(move || work(number, &queue, &gauges))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            clients: Arc::new(Clients::new(dependencies, THREADS, reviews)),
            jobs: Some(jobs),
            threads,
            gauges,
        })
    }

    fn submit(&self, wanted_until: Instant, run: impl FnOnce() + Send + 'static) {
        let jobs = self.jobs.as_ref().expect("the pool is open until it is dropped");
        let job = Job { wanted_until, run: Box::new(run) };
        jobs.send(job).expect("the threads stay until the pool is dropped");
    }
}

impl Storefront for SharedPool {
    fn page(&self, product: u32, started: Instant) -> Result<Page, Unavailable> {
        let until = started + CALL_LIMIT;
        self.gauges.pages.fetch_add(1, Ordering::Relaxed);
        let (sender, answers) = bounded(Part::ALL.len());
        for part in Part::ALL {
            let clients = Arc::clone(&self.clients);
            let sender = sender.clone();
            self.submit(until, move || {
                // The page may have given up meanwhile; then nobody receives this.
                let _ = sender.send((part, clients.fetch(part, product, until)));
            });
        }
        drop(sender);

        // Ends when all parts have answered and the channel closes, or at the limit.
        let mut page = Page::new(product);
        while let Ok((part, answer)) = answers.recv_deadline(until) {
            match answer {
                Ok(value) => page.insert(part, value),
                Err(error) if part.is_required() => return Err(unavailable(error.to_string())),
                Err(_) => {}
            }
        }
        if page.has(Part::Pricing) {
            Ok(page)
        } else {
            Err(unavailable("pricing did not answer in time".to_owned()))
        }
    }

    fn calls(&self, _: Part) -> Calls {
        // A page calls every part once, and a shared pool refuses nothing.
        let asked = self.gauges.pages.load(Ordering::Relaxed);
        Calls { asked, ..Calls::default() }
    }

    fn busy(&self) -> usize {
        self.gauges.calls().count()
    }

    fn holds_from_before(&self, moment: Instant) -> bool {
        // Nothing queues for 200 threads when all is well, so any queue is left from before.
        self.jobs.as_ref().is_some_and(|jobs| !jobs.is_empty())
            || self.gauges.calls().any(|began| began < moment)
    }

    fn threads(&self) -> usize {
        THREADS
    }
}

impl Drop for SharedPool {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The life of a pool thread.
fn work(number: usize, queue: &Receiver<Job>, gauges: &Gauges) {
    for job in queue {
        let now = Instant::now();
        if now >= job.wanted_until {
            continue;
        }
        gauges.set(number, Some(now));
        (job.run)();
        gauges.set(number, None);
    }
}

fn unavailable(reason: String) -> Unavailable {
    Unavailable { reason, retry_after: Duration::from_secs(1) }
}
