//! The healthy dependency's calls: they come at a steady rate, whatever becomes of those before.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ureq::Agent;

use crate::common::Failure;
use crate::common::rounds::{Figures, latencies};
use crate::neighbour::Trouble;
use crate::origin::Origin;
use crate::site::{Side, Site, THREADS, sleep_until};

/// A caller leaves after this, and so it is the longest latency.
const LIMIT: Duration = Duration::from_millis(500);

/// As many as every p99 is to have at least.
const CALLS: usize = 2_000;

/// What the healthy dependency does.
#[derive(Clone)]
pub(crate) enum Work {
    /// A call over loopback HTTP to a server that answers after 1 ms, over kept connections.
    Http { agent: Agent, url: Arc<str>, _server: Arc<Origin> },
    /// Some 20 µs of computing.
    Light,
}

impl Work {
    pub(crate) fn http() -> Result<Self, Failure> {
        let server = Origin::answering_after(Duration::from_millis(1))?;
        let config = Agent::config_builder()
            .max_idle_connections(2 * THREADS)
            .max_idle_connections_per_host(2 * THREADS)
            .proxy(None);
        let url = format!("http://{}/", server.address()).into();
        Ok(Self::Http { agent: config.build().new_agent(), url, _server: Arc::new(server) })
    }

    /// The time between two calls: the threads are idle for most of it.
    fn gap(&self) -> Duration {
        match self {
            Self::Http { .. } => Duration::from_micros(400),
            Self::Light => Duration::from_micros(200),
        }
    }

    fn run(&self) -> Result<(), ureq::Error> {
        match self {
            Self::Http { agent, url, .. } => {
                let body = agent.get(url.as_ref()).call()?.body_mut().read_to_string()?;
                black_box(body);
            }
            Self::Light => {
                let mut hash = black_box(0xcbf2_9ce4_8422_2325_u64);
                for byte in 0..20_000_u64 {
                    hash = (hash ^ (byte & 0xff)).wrapping_mul(0x100_0000_01b3);
                }
                black_box(hash);
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Self::Light) { "Light" } else { "Http" })
    }
}

const REFUSED: u64 = u64::MAX;

/// Calls the healthy side of a site while its neighbour has this trouble. A call that is refused, or
/// that has no answer within the limit, counts as one that took as long as the limit.
pub(crate) fn measure(
    site: &Arc<dyn Site>,
    trouble: &mut Trouble,
    work: &Work,
) -> Result<Figures, Failure> {
    make_calls(CALLS, site, trouble, work)
}

fn make_calls(
    calls: usize,
    site: &Arc<dyn Site>,
    trouble: &mut Trouble,
    work: &Work,
) -> Result<Figures, Failure> {
    let slots: Arc<[AtomicU64]> = (0..calls).map(|_| AtomicU64::new(0)).collect();
    trouble.begin(site)?;
    let mut due = Instant::now();
    let mut last = due;
    for number in 0..calls {
        due += work.gap();
        sleep_until(due);
        let (work, theirs) = (work.clone(), Arc::clone(&slots));
        last = Instant::now();
        let sent = last;
        let accepted = site.submit(
            Side::Healthy,
            Box::new(move || {
                let answered = work.run().is_ok();
                let nanos = sent.elapsed().as_nanos().max(1);
                let nanos = u64::try_from(nanos).unwrap_or(REFUSED);
                theirs[number].store(if answered { nanos } else { REFUSED }, Ordering::Release);
            }),
        );
        if !accepted {
            slots[number].store(REFUSED, Ordering::Relaxed);
        }
    }
    while Instant::now() < last + LIMIT
        && slots.iter().any(|slot| slot.load(Ordering::Acquire) == 0)
    {
        sleep_until(Instant::now() + Duration::from_millis(1));
    }
    // Read before the trouble ends: what is answered only then came too late.
    let taken: Vec<u64> = slots.iter().map(|slot| slot.load(Ordering::Acquire)).collect();
    let neighbour = trouble.end()?;

    let limit = u64::try_from(LIMIT.as_nanos())?;
    let refused = taken.iter().filter(|taken| **taken == REFUSED).count();
    let samples: Vec<u64> =
        taken.into_iter().map(|taken| if taken == 0 { limit } else { taken.min(limit) }).collect();
    let mut figures = latencies(&samples);
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    figures.push(("refused_percent", refused as f64 * 100.0 / calls as f64));
    figures.extend(neighbour);
    Ok(figures)
}

/// Has connections opened and caches warmed before anything counts.
pub(crate) fn warm(site: &Arc<dyn Site>, work: &Work) -> Result<(), Failure> {
    let mut idle = Trouble::none();
    let _ = make_calls(CALLS / 10, site, &mut idle, work)?;
    Ok(())
}
