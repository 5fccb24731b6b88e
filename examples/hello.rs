//! Two bulkheads, one slow dependency: the slow one is refused, the other does not notice.
//!
//! Run it: `cargo run --example hello`
//!
//! You will see four calls to `reviews`, of which two hold its threads and two are refused at once;
//! a call to `pricing` that is as fast as ever; and the numbers of both bulkheads.

use std::thread::sleep;
use std::time::{Duration, Instant};

use watertight::{Bulkhead, CallError, Flatten, Runtime};

type Anything = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Anything> {
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("pricing").threads(2).queue(4))
        .bulkhead(Bulkhead::builder("reviews").threads(2).queue(0))
        .build()?;
    let pricing = runtime.bulkhead("pricing")?;
    let reviews = runtime.bulkhead("reviews")?;

    let mut running = Vec::new();
    for call in 1..=4 {
        match reviews.submit(|_| slow_reviews()) {
            Ok(handle) => running.push(handle),
            // The closure is inside `refused`, unstarted; `into_job` would return it.
            Err(refused) => println!("reviews, call {call}: {} ({refused})", refused.reason()),
        }
    }

    // `flat` puts the closure's own error next to the errors of the call.
    let start = Instant::now();
    match pricing.call(|_| "990".parse::<u32>()).flat() {
        Ok(cents) => println!("pricing: {cents} cents after {:.1?}", start.elapsed()),
        Err(CallError::Failed(error)) => println!("pricing answered nonsense: {error}"),
        Err(error) => println!("pricing gave no answer: {error}"),
    }

    for snapshot in runtime.snapshots() {
        println!("{snapshot}");
    }
    for handle in running {
        println!("reviews: {} stars", handle.join()?);
    }
    Ok(())
}

fn slow_reviews() -> u32 {
    sleep(Duration::from_millis(500));
    4
}
