//! The numbers as JSON, for people and scripts.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::compartment::{Histogram, Holdings, LookUpEnd, Parting};
use crate::error::Rejection;
use crate::metrics::reading::{PINNING, Reading};

/// One object, with a list of the bulkheads. Times are seconds.
pub(super) fn of(readings: &[Reading]) -> String {
    let bulkheads: Vec<Value> = readings.iter().map(bulkhead).collect();
    let all = json!({ "watertight": env!("CARGO_PKG_VERSION"), "bulkheads": bulkheads });
    format!("{all:#}\n")
}

fn bulkhead(reading: &Reading) -> Value {
    let now = &reading.snapshot;
    let totals = &now.totals;
    let rejected = counts(Rejection::ALL.map(|why| (why.as_str(), now.rejected(why))));
    let unstarted = counts(Rejection::ALL.map(|why| (why.as_str(), totals.not_started(why))));
    let pinning: Map<_, _> = PINNING
        .into_iter()
        .zip(reading.pinning)
        .map(|(state, threads)| (state.to_owned(), threads.into()))
        .collect();
    json!({
        "bulkhead": now.bulkhead,
        "open": reading.is_open,
        "threads": now.threads,
        "running_limit": now.limit,
        "queued_limit": now.queue,
        "waiting_limit": reading.waiting_limit,
        "running": now.running,
        "queued": now.queued - now.starting,
        "starting": now.starting,
        "waiting": now.waiting,
        "overdue": now.overdue,
        "oldest_running_seconds": seconds(now.oldest_running),
        "oldest_queued_seconds": seconds(now.oldest_queued),
        "saturated_seconds": seconds(now.saturated_for),
        "running_peak": now.recent.running,
        "queued_peak": now.recent.queued,
        "waiting_peak": now.recent.waiting,
        "totals": {
            "arrivals": now.arrivals,
            "accepted": totals.accepted,
            "rejected": rejected,
            "returned": totals.returned,
            "panicked": totals.panicked,
            "not_started": unstarted,
            "call_limit_running": totals.call_limit_running,
            "busy_seconds": totals.busy.as_secs_f64(),
            "full_seconds": totals.full.as_secs_f64(),
            "hook_panics": now.hook_panics,
            "drop_panics": now.drop_panics,
        },
        "queue_wait_seconds": spread(&now.wait_times),
        "run_seconds": spread(&now.run_times),
        "cpu_seconds": seconds(reading.cpu.map(|times| times.ran)),
        "cpu_wait_seconds": seconds(reading.cpu.map(|times| times.waited)),
        "pinned_threads": pinning,
        "connections": reading.holdings.as_ref().map(connections),
    })
}

fn connections(holdings: &Holdings) -> Value {
    let discarded =
        counts(Parting::ALL.map(|cause| (cause.as_str(), holdings.parted[cause as usize])));
    let look_ups = holdings.look_ups.map(|look_ups| {
        let ended = LookUpEnd::ALL.map(|end| (end.as_str(), look_ups.ended[end as usize]));
        json!({ "ended": counts(ended), "wait_seconds": look_ups.waited.as_secs_f64() })
    });
    json!({
        "in_use": holdings.in_use,
        "idle": holdings.idle,
        "unclosed": holdings.unclosed,
        "waits": holdings.waiting,
        "opened": holdings.opened,
        "failed": holdings.failed,
        "discarded": discarded,
        "dns_lookups": look_ups,
    })
}

/// With the buckets that anything fell into, by their upper bounds.
fn spread(histogram: &Histogram) -> Value {
    let bounds = histogram.bounds().iter().map(|bound| bound.as_secs_f64().to_string());
    let buckets = bounds.chain(["+Inf".to_owned()]).zip(histogram.counts());
    let buckets = buckets.filter(|(_, count)| **count > 0);
    let buckets: Map<_, _> = buckets.map(|(bound, count)| (bound, (*count).into())).collect();
    json!({ "count": histogram.count(), "sum": histogram.sum().as_secs_f64(), "buckets": buckets })
}

/// Those that have happened.
fn counts<const N: usize>(all: [(&str, u64); N]) -> Map<String, Value> {
    let happened = all.into_iter().filter(|(_, count)| *count > 0);
    happened.map(|(name, count)| (name.to_owned(), count.into())).collect()
}

fn seconds(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_secs_f64())
}
