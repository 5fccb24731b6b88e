//! The metrics: their names, what they mean, and where in a [`Reading`] their values are.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::{
    CounterValueEncoder, DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue,
    GaugeValueEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::reading::{PINNING, Process, Reading};
use crate::compartment::{Histogram, LookUpEnd, Parting};
use crate::error::{Rejection, TimeLimit};

/// A number as it is written: whole ones without a fraction.
#[derive(Debug, Clone, Copy)]
enum Value {
    Whole(u64),
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Whole(value as u64)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Whole(value.into())
    }
}

impl From<Duration> for Value {
    fn from(value: Duration) -> Self {
        Self::Real(value.as_secs_f64())
    }
}

impl EncodeGaugeValue for Value {
    fn encode(&self, encoder: &mut GaugeValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => EncodeGaugeValue::encode(value, encoder),
            Self::Real(value) => EncodeGaugeValue::encode(value, encoder),
        }
    }
}

impl EncodeCounterValue for Value {
    fn encode(&self, encoder: &mut CounterValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => EncodeCounterValue::encode(value, encoder),
            Self::Real(value) => EncodeCounterValue::encode(value, encoder),
        }
    }
}

/// Where values come from: one of a bulkhead, or one for each value of a second label. A bulkhead for
/// which there is none has no series.
#[derive(Clone, Copy)]
enum Source {
    One(fn(&Reading) -> Option<Value>),
    Each(&'static str, fn(&Reading, &mut dyn FnMut(&'static str, Value))),
    Spread(fn(&Reading) -> &Histogram),
}

/// One metric.
struct Family {
    /// Without its unit, and without the `_total` of a counter.
    name: &'static str,
    kind: MetricType,
    in_seconds: bool,
    help: &'static str,
    source: Source,
}

impl Family {
    const fn gauge(name: &'static str, help: &'static str, source: Source) -> Self {
        Self { name, kind: MetricType::Gauge, in_seconds: false, help, source }
    }

    const fn counter(name: &'static str, help: &'static str, source: Source) -> Self {
        Self { name, kind: MetricType::Counter, in_seconds: false, help, source }
    }

    const fn histogram(
        name: &'static str,
        help: &'static str,
        read: fn(&Reading) -> &Histogram,
    ) -> Self {
        let (kind, source) = (MetricType::Histogram, Spread(read));
        Self { name, kind, in_seconds: true, help, source }
    }

    const fn seconds(mut self) -> Self {
        self.in_seconds = true;
        self
    }
}

use Source::{Each, One, Spread};

/// In the order of the output.
const FAMILIES: &[Family] = &[
    // ===== now =====
    Family::gauge(
        "watertight_open",
        "Whether the bulkhead lets anybody in (1), or is shutting down (0).",
        One(|r| Some(r.is_open.into())),
    ),
    Family::gauge(
        "watertight_threads",
        "Worker threads.",
        One(|r| Some(r.snapshot.threads.into())),
    ),
    Family::gauge(
        "watertight_running_limit",
        "How many jobs may run at once; at most as many as there are threads.",
        One(|r| Some(r.snapshot.limit.into())),
    ),
    Family::gauge(
        "watertight_queued_limit",
        "How many accepted jobs may wait for a thread.",
        One(|r| Some(r.snapshot.queue.into())),
    ),
    Family::gauge(
        "watertight_waiting_limit",
        "How many callers may wait for a place.",
        One(|r| Some(r.waiting_limit.into())),
    ),
    Family::gauge(
        "watertight_running",
        "Jobs that run now, those whose callers are gone included.",
        One(|r| Some(r.snapshot.running.into())),
    ),
    Family::gauge(
        "watertight_queued",
        "Accepted jobs that wait for a thread.",
        One(|r| Some((r.snapshot.queued - r.snapshot.starting).into())),
    ),
    Family::gauge(
        "watertight_starting",
        "Jobs that have a thread, which is on its way to them.",
        One(|r| Some(r.snapshot.starting.into())),
    ),
    Family::gauge(
        "watertight_waiting",
        "Callers that wait for a place.",
        One(|r| Some(r.snapshot.waiting.into())),
    ),
    Family::gauge(
        "watertight_overdue",
        "Running jobs whose callers are gone.",
        One(|r| Some(r.snapshot.overdue.into())),
    ),
    Family::gauge(
        "watertight_oldest_running",
        "How long the longest-running job has been running; 0 if none runs.",
        One(|r| Some(r.snapshot.oldest_running.unwrap_or_default().into())),
    )
    .seconds(),
    Family::gauge(
        "watertight_oldest_queued",
        "How long the longest-queued job has been queued; 0 if none is.",
        One(|r| Some(r.snapshot.oldest_queued.unwrap_or_default().into())),
    )
    .seconds(),
    Family::gauge(
        "watertight_saturated",
        "How long every thread and every place in the queue has been taken without a break; 0 if not.",
        One(|r| Some(r.snapshot.saturated_for.unwrap_or_default().into())),
    )
    .seconds(),
    Family::gauge(
        "watertight_running_peak",
        "The most jobs that ran at once in the last one to two minutes.",
        One(|r| Some(r.snapshot.recent.running.into())),
    ),
    Family::gauge(
        "watertight_queued_peak",
        "The most jobs that were queued at once in the last one to two minutes.",
        One(|r| Some(r.snapshot.recent.queued.into())),
    ),
    Family::gauge(
        "watertight_waiting_peak",
        "The most callers that waited at once in the last one to two minutes.",
        One(|r| Some(r.snapshot.recent.waiting.into())),
    ),
    // ===== since it was built =====
    Family::counter(
        "watertight_arrivals",
        "Calls that came, refused ones included.",
        One(|r| Some(r.snapshot.arrivals.into())),
    ),
    Family::counter(
        "watertight_accepted",
        "Jobs that were let in.",
        One(|r| Some(r.snapshot.totals.accepted.into())),
    ),
    Family::counter(
        "watertight_rejected",
        "Calls that were refused at the door, by reason.",
        Each("reason", |r, write| {
            for why in AT_DOOR {
                write(why.as_str(), r.snapshot.rejected(why).into());
            }
        }),
    ),
    Family::counter(
        "watertight_ended",
        "Accepted jobs that have ended, by outcome: returned, panicked, or why never started.",
        Each("outcome", |r, write| {
            let totals = &r.snapshot.totals;
            write("returned", totals.returned.into());
            write("panicked", totals.panicked.into());
            for why in UNSTARTED {
                write(why.as_str(), totals.not_started(why).into());
            }
        }),
    ),
    Family::counter(
        "watertight_timeouts",
        "Calls that a time limit ended, by limit.",
        Each("limit", |r, write| {
            for limit in [TimeLimit::Wait, TimeLimit::Queue, TimeLimit::Call] {
                write(limit.as_str(), timeouts(r, limit).into());
            }
        }),
    ),
    Family::counter(
        "watertight_busy",
        "Thread-seconds spent on jobs, those that run now included.",
        One(|r| Some(r.snapshot.totals.busy.into())),
    )
    .seconds(),
    Family::counter(
        "watertight_full",
        "How long every thread and every place in the queue was taken, in all.",
        One(|r| Some(r.snapshot.totals.full.into())),
    )
    .seconds(),
    Family::counter(
        "watertight_hook_panics",
        "Panics in hooks of the observer, of threads and of aborted jobs, and in the clock.",
        One(|r| Some(r.snapshot.hook_panics.into())),
    ),
    Family::counter(
        "watertight_drop_panics",
        "Panics in destructors of closures that were never started.",
        One(|r| Some(r.snapshot.drop_panics.into())),
    ),
    // ===== how long it takes =====
    Family::histogram(
        "watertight_queue_wait",
        "How long jobs waited between their acceptance and their start, those that started.",
        |r| &r.snapshot.wait_times,
    ),
    Family::histogram(
        "watertight_run",
        "How long jobs ran, those that returned or panicked.",
        |r| &r.snapshot.run_times,
    ),
    // ===== its threads =====
    Family::counter(
        "watertight_cpu",
        "CPU time of the bulkhead's threads, helpers included.",
        One(|r| r.cpu.map(|times| times.ran.into())),
    )
    .seconds(),
    Family::counter(
        "watertight_cpu_wait",
        "How long the bulkhead's threads were ready to run and had no core.",
        One(|r| r.cpu.map(|times| times.waited.into())),
    )
    .seconds(),
    Family::gauge(
        "watertight_pinned_threads",
        "Worker threads by what became of their pinning to cores.",
        Each("state", |r, write| {
            for (state, threads) in PINNING.into_iter().zip(r.pinning) {
                write(state, threads.into());
            }
        }),
    ),
    // ===== its connections =====
    Family::gauge(
        "watertight_connections",
        "Open connections, by state; unclosed ones are given up, and their closing takes its time.",
        Each("state", |r, write| {
            if let Some(holdings) = &r.holdings {
                write("in_use", holdings.in_use.into());
                write("idle", holdings.idle.into());
                write("unclosed", holdings.unclosed.into());
            }
        }),
    ),
    Family::gauge(
        "watertight_connection_waits",
        "Running jobs that wait for a connection.",
        One(|r| r.holdings.as_ref().map(|holdings| holdings.waiting.into())),
    ),
    Family::counter(
        "watertight_connections_opened",
        "Connections that were opened.",
        One(|r| r.holdings.as_ref().map(|holdings| holdings.opened.into())),
    ),
    Family::counter(
        "watertight_connect_failures",
        "Attempts to open a connection that failed.",
        One(|r| r.holdings.as_ref().map(|holdings| holdings.failed.into())),
    ),
    Family::counter(
        "watertight_connections_discarded",
        "Connections that were given up, by cause.",
        Each("cause", |r, write| {
            for cause in Parting::ALL {
                if let Some(holdings) = &r.holdings {
                    write(cause.as_str(), holdings.parted[cause as usize].into());
                }
            }
        }),
    ),
    Family::counter(
        "watertight_dns_lookups",
        "Look-ups of host names that were not answered from memory, by outcome.",
        Each("outcome", |r, write| {
            for end in LookUpEnd::ALL {
                if let Some(look_ups) = r.holdings.as_ref().and_then(|all| all.look_ups) {
                    write(end.as_str(), look_ups.ended[end as usize].into());
                }
            }
        }),
    ),
    Family::counter(
        "watertight_dns_wait",
        "How long jobs have waited for host names to be looked up.",
        One(|r| Some(r.holdings.as_ref()?.look_ups?.waited.into())),
    )
    .seconds(),
];

/// The reasons why a call is refused at the door.
const AT_DOOR: [Rejection; 8] = [
    Rejection::QueueFull,
    Rejection::WaitLimit,
    Rejection::TooManyWaiting,
    Rejection::DeadlinePast,
    Rejection::WouldBeLate,
    Rejection::WouldDeadlock,
    Rejection::ShuttingDown,
    // A future that was dropped while it waited for a place.
    Rejection::Cancelled,
];

/// The reasons why an accepted job ends unstarted.
const UNSTARTED: [Rejection; 6] = [
    Rejection::DeadlinePast,
    Rejection::WouldDeadlock,
    Rejection::ShuttingDown,
    Rejection::Displaced,
    Rejection::QueueLimit,
    Rejection::Cancelled,
];

/// Calls that `limit` ended; each call is counted once.
fn timeouts(reading: &Reading, limit: TimeLimit) -> u64 {
    let snapshot = &reading.snapshot;
    let totals = &snapshot.totals;
    match limit {
        TimeLimit::Wait => snapshot.rejected(Rejection::WaitLimit),
        TimeLimit::Queue => totals.not_started(Rejection::QueueLimit),
        TimeLimit::Call => {
            snapshot.rejected(Rejection::DeadlinePast)
                + totals.not_started(Rejection::DeadlinePast)
                + totals.call_limit_running
        }
        TimeLimit::Attempt => 0,
    }
}

/// Writes all of it, each metric as one block.
pub(super) fn write(
    readings: &[Reading],
    process: &Process,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    encoder
        .encode_descriptor(
            "watertight_build",
            "The version of the library.",
            None,
            MetricType::Info,
        )?
        .encode_info(&version)?;
    for family in FAMILIES {
        family.write(readings, encoder)?;
    }
    write_process(process, encoder)
}

impl Family {
    fn write(&self, readings: &[Reading], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut series = Vec::new();
        for reading in readings {
            let bulkhead = ("bulkhead", reading.snapshot.bulkhead.as_str());
            match self.source {
                One(read) => {
                    let number = read(reading).map(Sample::Number);
                    series.extend(number.map(|number| (vec![bulkhead], number)));
                }
                Each(label, read) => read(reading, &mut |of, value| {
                    series.push((vec![bulkhead, (label, of)], Sample::Number(value)));
                }),
                Spread(read) => series.push((vec![bulkhead], Sample::Spread(read(reading)))),
            }
        }
        if series.is_empty() {
            return Ok(());
        }
        let unit = self.in_seconds.then_some(&Unit::Seconds);
        let mut metric = encoder.encode_descriptor(self.name, self.help, unit, self.kind)?;
        for (labels, sample) in &series {
            sample.write(&mut metric.encode_family(labels)?, self.kind)?;
        }
        Ok(())
    }
}

/// What is written of one series, or of the series of one histogram.
enum Sample<'a> {
    Number(Value),
    Spread(&'a Histogram),
}

impl Sample<'_> {
    fn write(&self, metric: &mut MetricEncoder<'_>, kind: MetricType) -> fmt::Result {
        match self {
            Self::Number(value) if kind == MetricType::Counter => {
                metric.encode_counter::<NoLabelSet, _, f64>(value, None)
            }
            Self::Number(value) => metric.encode_gauge(value),
            Self::Spread(histogram) => {
                let bounds = histogram.bounds().iter().map(Duration::as_secs_f64);
                let bounds = bounds.chain([f64::INFINITY]);
                let buckets: Vec<_> = bounds.zip(histogram.counts().iter().copied()).collect();
                let (sum, count) = (histogram.sum().as_secs_f64(), histogram.count());
                metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
            }
        }
    }
}

fn write_process(process: &Process, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Some(throttling) = process.throttling else { return Ok(()) };
    let mut counter = |name, unit: Option<&Unit>, help, value: Value| {
        let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
    };
    counter(
        "watertight_cgroup_periods",
        None,
        "Periods of the CPU quota in which the process's control group ran.",
        throttling.periods.into(),
    )?;
    counter(
        "watertight_cgroup_throttled_periods",
        None,
        "Periods in which the control group was stopped, since its CPU quota was used up.",
        throttling.throttled_periods.into(),
    )?;
    counter(
        "watertight_cgroup_throttled",
        Some(&Unit::Seconds),
        "How long the control group's threads were stopped.",
        throttling.throttled.into(),
    )
}
