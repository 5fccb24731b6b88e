//! Clocks that a test would rather not have.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use watertight::{Bulkhead, Clock, Deadline, Rejection, Runtime};

use crate::support::{Gate, WATCHDOG, eventually, hold, within};

/// Says that it runs at the system's pace, and stands still.
struct StandsStill {
    at: Instant,
    readings: Arc<AtomicUsize>,
}

impl Clock for StandsStill {
    fn now(&self) -> Instant {
        self.readings.fetch_add(1, Ordering::SeqCst);
        self.at
    }
}

#[test]
fn a_limit_comes_though_the_clock_stands_still_and_nobody_spins_for_it() {
    let (at, readings) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let runtime = Runtime::builder()
        .clock(StandsStill { at, readings: Arc::clone(&readings) })
        .bulkhead(Bulkhead::builder("still").threads(1).queue(2))
        .build()
        .unwrap();
    let bulkhead = runtime.bulkhead("still").unwrap();
    let gate = Gate::new();
    let held = hold(&bulkhead, &gate, 1);
    gate.wait_for(1);
    let deadline = Deadline::at(at + Duration::from_millis(30));
    let queued = bulkhead.submit_until(deadline, |_| ()).unwrap();
    // Nobody but the timekeeper watches it.
    let error = within("a queued job past its deadline", move || queued.join().unwrap_err());
    assert_eq!(error.rejection(), Some(Rejection::DeadlinePast));
    assert!(readings.load(Ordering::SeqCst) < 1_000, "{readings:?} readings of the clock");
    gate.open();
    for job in held {
        job.join().unwrap();
    }
    eventually("it is at rest", || bulkhead.snapshot().running == 0);
    assert!(runtime.shutdown(WATCHDOG).unwrap().is_clean());
}
