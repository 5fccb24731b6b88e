//! A storm of calls that is scraped throughout: every count is bracketed by what the clients know at
//! that moment, and equal to it at rest.
#![allow(clippy::cast_precision_loss, reason = "there are far fewer calls than 2^52")]

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use watertight::metrics::{Format, Metrics};
use watertight::{Bulkhead, CallError, Deadline, JobHandle, RejectionPolicy, Runtime};

use super::exposition::{Scrape, strangers_agree};
use crate::support::{block_on, eventually};

/// What the clients of one bulkhead have seen: by name of what happened.
#[derive(Default)]
struct Tally(BTreeMap<&'static str, AtomicU64>);

const ENDS: [&str; 14] = [
    "ok",
    "timed_out",
    "panicked",
    "rejected queue_full",
    "rejected wait_limit",
    "rejected too_many_waiting",
    "rejected deadline_past",
    "rejected cancelled",
    "ended displaced",
    "ended queue_limit",
    "ended deadline_past",
    "ended cancelled",
    "gone",
    "other",
];

impl Tally {
    fn new() -> Arc<Self> {
        let names = ["begun", "started", "returning", "panicking"].into_iter().chain(ENDS);
        Arc::new(Self(names.map(|name| (name, AtomicU64::new(0))).collect()))
    }

    fn add(&self, what: &str) {
        let count = self.0.get(what).unwrap_or_else(|| panic!("{what} is not expected here"));
        count.fetch_add(1, Ordering::SeqCst);
    }

    fn note<T>(&self, answer: Result<T, CallError>) {
        match answer {
            Ok(_) => self.add("ok"),
            Err(CallError::Rejected(refused)) => {
                self.add(&format!("rejected {}", refused.reason()));
            }
            Err(CallError::NotStarted(ended)) => self.add(&format!("ended {}", ended.reason())),
            Err(CallError::TimedOut(_)) => self.add("timed_out"),
            Err(CallError::Panicked(_)) => self.add("panicked"),
            Err(_) => self.add("other"),
        }
    }

    /// All of it at some moment, each count by itself.
    fn read(&self) -> Seen {
        Seen(self.0.iter().map(|(name, count)| (*name, count.load(Ordering::SeqCst))).collect())
    }
}

struct Seen(BTreeMap<&'static str, u64>);

impl Seen {
    fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    fn over(&self) -> u64 {
        ENDS.into_iter().map(|end| self.get(end)).sum()
    }
}

fn call(bulkhead: &Bulkhead, tally: &Arc<Tally>, kept: &mut Vec<JobHandle<()>>) {
    let (run, panics) = (Duration::from_micros(fastrand::u64(0..400)), fastrand::u8(..) < 20);
    let inside = Arc::clone(tally);
    let job = move |_: &watertight::Context<'_>| {
        inside.add("started");
        let until = Instant::now() + run;
        while Instant::now() < until {
            thread::yield_now();
        }
        inside.add(if panics { "panicking" } else { "returning" });
        if panics {
            resume_unwind(Box::new("a job of the storm"));
        }
    };
    let deadline = Deadline::after(Duration::from_micros(fastrand::u64(0..1_500)));
    tally.add("begun");
    match fastrand::u8(0..10) {
        0..=2 => tally.note(bulkhead.call_until(Deadline::never(), job)),
        3..=5 => tally.note(bulkhead.call_until(deadline, job)),
        6 => match bulkhead.try_submit(job) {
            Ok(handle) if fastrand::bool() => {
                handle.cancel();
                tally.note(handle.join());
            }
            Ok(handle) => tally.note(handle.join()),
            Err(refused) => tally.note::<()>(Err(refused.into())),
        },
        7 => tally.note(block_on(bulkhead.call_async(job))),
        8 => {
            // Polled once and dropped: it is refused, or leaves the line, or its job is cancelled.
            let mut future = Box::pin(bulkhead.submit_async(job));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let poll = std::future::Future::poll(future.as_mut(), &mut context);
            match poll {
                std::task::Poll::Ready(Ok(handle)) => {
                    handle.cancel();
                    tally.note(handle.join());
                }
                std::task::Poll::Ready(Err(refused)) => tally.note::<()>(Err(refused.into())),
                std::task::Poll::Pending => {
                    drop(future);
                    tally.add("gone");
                }
            }
        }
        _ => match bulkhead.submit_until(deadline, job) {
            Ok(handle) => kept.push(handle),
            Err(refused) => tally.note::<()>(Err(refused.into())),
        },
    }
    if kept.len() > 8 {
        tally.note(kept.swap_remove(fastrand::usize(..kept.len())).join());
    }
}

/// What the clients knew before a scrape and after it, against what it says.
fn bracket(scrape: &Scrape, bulkhead: &str, before: &Seen, after: &Seen) {
    // Calls that had begun by the end of the scrape and were not over at its beginning may be counted
    // or not, as one thing each.
    let open = after.get("begun") - before.over();
    let within = |what: &str, value: f64, least: u64, most: u64| {
        assert!(
            least as f64 <= value && value <= most as f64,
            "{what} of {bulkhead} is {value}, but the clients say {least} to {most}"
        );
    };
    let of = [("bulkhead", bulkhead)];
    let arrivals = scrape.get("watertight_arrivals_total", &of);
    within("arrivals", arrivals, before.over(), after.get("begun"));
    for end in ENDS {
        let Some((kind, label)) = end.split_once(' ') else { continue };
        let key = if kind == "rejected" { "reason" } else { "outcome" };
        let name = format!("watertight_{kind}_total");
        let value = scrape.get(&name, &[of[0], (key, label)]);
        // Whoever dropped the future of a call does not learn how it ended.
        let unknown = if label == "cancelled" { before.get("gone") } else { 0 };
        within(end, value, before.get(end), before.get(end) + unknown + open);
    }
    let outcome = |outcome| scrape.get("watertight_ended_total", &[of[0], ("outcome", outcome)]);
    within("returned", outcome("returned"), before.get("ok"), after.get("returning"));
    within("panicked", outcome("panicked"), before.get("panicked"), after.get("panicking"));
    let started = scrape.get("watertight_queue_wait_seconds_count", &of);
    let answered = before.get("ok") + before.get("panicked") + before.get("timed_out");
    within("started", started, before.get("started"), after.get("begun"));
    within("started", started, answered, after.get("begun"));
    let call = scrape.get("watertight_timeouts_total", &[of[0], ("limit", "call")]);
    let late = ["timed_out", "rejected deadline_past", "ended deadline_past"];
    let late: u64 = late.into_iter().map(|end| before.get(end)).sum();
    within("call limits", call, late, late + open);
}

/// At rest nothing is left open, and every count is the clients' own.
fn equal(scrape: &Scrape, bulkhead: &str, seen: &Seen) {
    let of = [("bulkhead", bulkhead)];
    let get = |name: &str, labels: &[(&str, &str)]| scrape.get(name, &[&of[..], labels].concat());
    assert_eq!(get("watertight_arrivals_total", &[]), seen.get("begun") as f64);
    for end in ENDS {
        let Some((kind, label)) = end.split_once(' ') else { continue };
        // Whoever dropped the future of a call does not learn how it ended.
        if label == "cancelled" {
            continue;
        }
        let key = if kind == "rejected" { "reason" } else { "outcome" };
        let value = get(&format!("watertight_{kind}_total"), &[(key, label)]);
        assert_eq!(value, seen.get(end) as f64, "{end} of {bulkhead}");
    }
    let ended = |outcome| get("watertight_ended_total", &[("outcome", outcome)]);
    assert_eq!(ended("returned"), seen.get("returning") as f64);
    assert_eq!(ended("panicked"), seen.get("panicking") as f64);
    assert_eq!(get("watertight_queue_wait_seconds_count", &[]), seen.get("started") as f64);
    assert_eq!(
        get("watertight_run_seconds_count", &[]),
        (seen.get("returning") + seen.get("panicking")) as f64
    );
    let refused = |reason| get("watertight_rejected_total", &[("reason", reason)]);
    let left = ended("cancelled") + refused("cancelled");
    let known = seen.get("ended cancelled") + seen.get("rejected cancelled");
    assert!(known as f64 <= left && left <= (known + seen.get("gone")) as f64);
    let late = seen.get("timed_out")
        + seen.get("rejected deadline_past")
        + seen.get("ended deadline_past");
    assert_eq!(get("watertight_timeouts_total", &[("limit", "call")]), late as f64);
}

#[test]
fn every_count_is_what_the_clients_know() {
    let seconds = std::env::var("WATERTIGHT_STORM_SECONDS").ok();
    let seconds = seconds.map_or(3, |seconds| seconds.parse().unwrap());
    let wait = RejectionPolicy::Wait { at_most: Duration::from_micros(500), submitters: 2 };
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("reject").threads(2).queue(1))
        .bulkhead(Bulkhead::builder("wait \"a\" bit").threads(1).queue(1).rejection(wait))
        .bulkhead(
            Bulkhead::builder("oldest").threads(2).queue(2).rejection(RejectionPolicy::DropOldest),
        )
        .bulkhead(
            Bulkhead::builder("stale").threads(1).queue(4).queue_limit(Duration::from_micros(300)),
        )
        .build()
        .unwrap();
    let metrics = Metrics::of(&runtime);
    let bulkheads: Vec<Bulkhead> = runtime.bulkheads().cloned().collect();
    let tallies: Vec<_> = bulkheads.iter().map(|_| Tally::new()).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..6)
        .map(|seed| {
            let (bulkheads, tallies) = (bulkheads.clone(), tallies.clone());
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                fastrand::seed(seed);
                let mut kept: Vec<Vec<_>> = bulkheads.iter().map(|_| Vec::new()).collect();
                while !stop.load(Ordering::SeqCst) {
                    let one = fastrand::usize(..bulkheads.len());
                    call(&bulkheads[one], &tallies[one], &mut kept[one]);
                }
                for (kept, tally) in kept.into_iter().zip(&tallies) {
                    for handle in kept {
                        tally.note(handle.join());
                    }
                }
            })
        })
        .collect();

    let start = Instant::now();
    let mut shown = Vec::new();
    let mut last: [Option<Scrape>; 2] = [None, None];
    let mut scrapes = 0;
    let scrape = |format| Scrape::parse(format, metrics.render(format));
    while start.elapsed() < Duration::from_secs(seconds) || scrapes < 50 {
        let turn = scrapes % 2;
        let before: Vec<_> = tallies.iter().map(|tally| tally.read()).collect();
        let now = scrape([Format::Text, Format::OpenMetrics][turn]);
        let after: Vec<_> = tallies.iter().map(|tally| tally.read()).collect();
        now.check();
        for ((bulkhead, before), after) in bulkheads.iter().zip(&before).zip(&after) {
            bracket(&now, bulkhead.name(), before, after);
        }
        for last in last.iter().flatten() {
            now.has_not_fallen_since(last);
        }
        // The bounds of buckets are written differently in the two formats.
        if let Some(last) = &last[turn] {
            assert_eq!(now.names(), last.names(), "a series has come or gone");
        }
        if scrapes % 15 == 0 && shown.len() < 64 {
            shown.push(now.clone());
        }
        last[turn] = Some(now);
        scrapes += 1;
    }
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        client.join().unwrap();
    }
    eventually("at rest", || {
        runtime.snapshots().iter().all(|now| (now.running, now.queued, now.waiting) == (0, 0, 0))
    });
    for format in [Format::Text, Format::OpenMetrics] {
        let rest = scrape(format);
        rest.check();
        for (bulkhead, tally) in bulkheads.iter().zip(&tallies) {
            equal(&rest, bulkhead.name(), &tally.read());
        }
        shown.push(rest);
    }
    strangers_agree(&shown);
    let calls: u64 = tallies.iter().map(|tally| tally.read().over()).sum();
    println!("{scrapes} scrapes of {calls} calls, {} of them read by strangers", shown.len());
}
