//! A shutdown that ends in time, whatever the jobs do, and says what it left behind.
//!
//! Run it: `cargo run --example graceful_shutdown`
//!
//! You will see jobs that finish within the limit, a job that hangs and is named as stuck with its
//! thread, a queued job that ended unstarted, and a later call that is refused.

use std::sync::mpsc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use watertight::{Bulkhead, Rejected, Runtime};

type Anything = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Anything> {
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("mail").threads(2).queue(4))
        .bulkhead(Bulkhead::builder("ledger").threads(1).queue(1))
        .drop_wait(Duration::ZERO)
        .build()?;
    let (mail, ledger) = (runtime.bulkhead("mail")?, runtime.bulkhead("ledger")?);

    // Four mails of 50 ms on two threads: done after 100 ms.
    for _ in 0..4 {
        // Dropping the handle lets the job run, with nobody to look at its value.
        drop(mail.submit(|_| sleep(Duration::from_millis(50)))?);
    }
    // The ledger hangs, and a second entry is queued behind the first.
    let (wake, hung) = mpsc::channel::<()>();
    // `forget` drops a refused closure: this one is not `Sync`, as a boxed error would have to be.
    let first = ledger.submit(move |_| hung.recv().is_ok()).map_err(Rejected::forget)?;
    let second = ledger.submit(|_| ())?;

    println!("Shutting down, for at most 300 ms.");
    let start = Instant::now();
    let report = runtime.shutdown(Duration::from_millis(300))?;
    println!("It took {:.0?}: {report}", start.elapsed());
    for job in &report.unstarted {
        println!("unstarted in `{}` after {:.0?} in the queue", job.bulkhead, job.waited);
    }
    println!("clean: {}", report.is_clean());

    // Whoever waited for an unstarted job has been told.
    if let Err(error) = second.join() {
        println!("second entry: {error}");
    }
    if let Err(error) = mail.call(|_| ()) {
        println!("one more mail: {error}");
    }

    // The stuck job was not stopped, which nobody can do. It still ends when it returns.
    wake.send(())?;
    println!("first entry returned after all: {}", first.join()?);
    Ok(())
}
