//! Time limits and cancellation: which limit fired, and what became of the closure.
//!
//! Run it: `cargo run --example deadlines`
//!
//! You will see five short stories: a call that ends while its closure runs, one that ends in the
//! queue, a job that was cancelled before it started, a running job that stops because it was told,
//! and an inner call that inherits the little time that its outer call has left.

use std::thread::sleep;
use std::time::{Duration, Instant};

use watertight::{Bulkhead, CallError, Context, Deadline, Runtime};

type Anything = Box<dyn std::error::Error + Send + Sync>;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn main() -> Result<(), Anything> {
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("orders").threads(1).queue(4).call_limit(ms(100)))
        .bulkhead(Bulkhead::builder("stock").threads(1))
        .build()?;
    let orders = runtime.bulkhead("orders")?;
    let stock = runtime.bulkhead("stock")?;

    println!(
        "1. The limit passes while the closure runs. The caller goes on, the thread stays taken."
    );
    tell(&orders.call(|_| sleep(ms(300))));
    println!("   {}", orders.snapshot());

    println!("2. The only thread is still taken, so this call ends in the queue, unstarted.");
    tell(&orders.call_until(Deadline::after(ms(50)), |_| ()));

    println!("3. A queued job that is cancelled leaves at once and gives its place back.");
    let queued = orders.submit(|_| ())?;
    println!("   left before it started: {}", queued.cancel());
    tell(&queued.join());

    println!("4. A running job is only told. It has to look.");
    let running = orders.submit(count_until_told)?;
    while orders.snapshot().queued > 0 {
        sleep(ms(5));
    }
    sleep(ms(30));
    println!("   left before it started: {}", running.cancel());
    println!("   it stopped by itself after {} steps", running.join()?);

    println!("5. A call inside a job has at most the time that the job has left.");
    let start = Instant::now();
    let inner = orders.call_until(Deadline::after(ms(200)), move |context| {
        sleep(ms(80));
        println!("   left to the job: {:.0?}", context.remaining().unwrap_or(Duration::MAX));
        // The limit of `stock` is one second. The job's is nearer.
        let answer = stock.call(|_| sleep(ms(400)));
        tell(&answer);
    });
    println!("   the whole took {:.0?}", start.elapsed());
    tell(&inner);
    Ok(())
}

fn count_until_told(context: &Context<'_>) -> u32 {
    let mut steps = 0;
    while !context.is_cancelled() {
        sleep(ms(5));
        steps += 1;
    }
    steps
}

fn tell<T>(answer: &Result<T, CallError>) {
    match answer {
        Ok(_) => println!("   done in time"),
        Err(error) => {
            let limit = error.time_limit().map_or("none", |limit| limit.as_str());
            println!("   limit: {limit}; never started: {}; {error}", error.never_started());
        }
    }
}
