//! What does crossing a bulkhead cost, beside the plainest thing that does the same?
//!
//! An empty job is run and its value awaited: by `Bulkhead::call` with all its limits on, and by a
//! thread fed from a crossbeam channel that answers through a channel of one. Both hand over between
//! two threads, so the number is mostly the system's wake-ups; the ratio is what to look at. The two
//! are interleaved, and the median of the rounds is shown.
//!
//! `cargo bench --bench call`

use std::thread;
use std::time::Instant;

use crossbeam_channel::{Sender, bounded};
use watertight::{Bulkhead, Runtime};

const ROUNDS: usize = 15;
const CALLS: u32 = 10_000;

fn nanos_per_call(call: impl Fn()) -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        call();
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime =
        Runtime::builder().bulkhead(Bulkhead::builder("bench").threads(1).queue(1_024)).build()?;
    let bulkhead = runtime.bulkhead("bench")?;
    let (jobs, queue) = bounded::<Sender<u32>>(1_024);
    let plain = thread::spawn(move || {
        for answer in queue {
            let _ = answer.send(1);
        }
    });

    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mine = nanos_per_call(|| {
            assert!(bulkhead.call(|_| 1).is_ok());
        });
        let other = nanos_per_call(|| {
            let (answer, value) = bounded(1);
            assert!(jobs.send(answer).is_ok() && value.recv().is_ok());
        });
        ours.push(mine);
        theirs.push(other);
        ratios.push(mine / other);
    }
    drop(jobs);
    plain.join().map_err(|_| "the plain worker panicked")?;
    println!("watertight   {:>7.0} ns a call, median of {ROUNDS} rounds of {CALLS}", median(ours));
    println!("plain thread {:>7.0} ns", median(theirs));
    println!("ratio        {:>7.2}", median(ratios));
    Ok(())
}
