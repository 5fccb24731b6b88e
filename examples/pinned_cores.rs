//! CPU-heavy jobs on cores of their own, so that they do not slow down the rest.
//!
//! Run it: `cargo run --release --example pinned_cores`
//!
//! You will see which cores this process may use, which of them the `resize` bulkhead got, the error
//! for asking for more than there are, and the latency of `checkout` while every core of `resize` is
//! busy. With a single core there is nothing to divide: then nothing is pinned, and it says so.

use std::hint::black_box;
use std::time::{Duration, Instant};

use watertight::{Bulkhead, Deadline, Runtime};

type Anything = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Anything> {
    // A runtime's plan knows the process's own mask: what the container or `taskset` leaves it.
    // It is `None` where the system does not say; nothing is pinned then.
    let allowed = Runtime::builder().build()?.plan().allowed_cores.clone().unwrap_or_default();
    let cores = allowed.len();
    println!("this process may use cores {allowed:?}");

    // More than there are is an error of `build`, and no thread is left behind.
    let greedy = Bulkhead::builder("resize").threads(1).core_count(cores + 1);
    match Runtime::builder().bulkhead(greedy).build() {
        Ok(_) => println!("this system cannot check cores"),
        Err(error) => println!("refused: {error}"),
    }

    // Half of the cores for images, the other half for everything else.
    let for_resize = cores / 2;
    let (mut resize, mut checkout) = (
        Bulkhead::builder("resize").threads(for_resize.max(1)).queue(100),
        Bulkhead::builder("checkout").threads(4),
    );
    if for_resize > 0 {
        resize = resize.core_count(for_resize);
        checkout = checkout.core_count(cores - for_resize);
    } else {
        println!("fewer than two cores: nothing is pinned, and `checkout` will feel it");
    }
    let runtime = Runtime::builder().bulkhead(resize).bulkhead(checkout).build()?;
    for planned in &runtime.plan().bulkheads {
        println!("{}: cores {:?}, pinning {:?}", planned.bulkhead, planned.cores, planned.pinning);
    }
    for warning in &runtime.plan().warnings {
        println!("warning: {warning}");
    }

    let (resize, checkout) = (runtime.bulkhead("resize")?, runtime.bulkhead("checkout")?);
    let until = Deadline::after(Duration::from_millis(800));
    // Submitted without a limit on the whole: each job looks at the deadline itself.
    let images: Vec<_> = (0..2 * for_resize.max(1))
        .map(|_| resize.submit_until(until, |context| grind(|| context.is_cancelled())))
        .collect::<Result<_, _>>()?;

    let mut slowest = Duration::ZERO;
    for _ in 0..50 {
        let start = Instant::now();
        checkout.call(|_| ())?;
        slowest = slowest.max(start.elapsed());
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("slowest of 50 checkouts beside a busy `resize`: {slowest:.1?}");

    drop(images);
    println!("{}", resize.snapshot());
    Ok(())
}

/// Computes until told to stop.
fn grind(stop: impl Fn() -> bool) -> u64 {
    let mut pixels = 0_u64;
    while !stop() {
        for byte in 0..100_000 {
            pixels = black_box(pixels.wrapping_mul(31).wrapping_add(byte));
        }
    }
    pixels
}
