//! Blocking work from async code, on whichever executor you have.
//!
//! Run it: `cargo run --example from_async`
//!
//! You will see an async function await two blocking jobs that run at the same time, a call that its
//! time limit ends, and a job that is cancelled because its future was dropped.
//!
//! The example has a tiny executor of its own, `block_on`. In a service the executor is yours; the
//! futures need nothing from it but to be polled again when they wake it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread, sleep};
use std::time::{Duration, Instant};

use watertight::{Bulkhead, CallError, Deadline, Rejection, Runtime};

type Anything = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Anything> {
    let runtime =
        Runtime::builder().bulkhead(Bulkhead::builder("database").threads(2).queue(2)).build()?;
    let database = runtime.bulkhead("database")?;
    block_on(serve(&database))
}

async fn serve(database: &Bulkhead) -> Result<(), Anything> {
    // A handle is a future too, and its job runs whether it is polled or not.
    let start = Instant::now();
    let user = database.submit_async(|_| query("user")).await?;
    let cart = database.submit_async(|_| query("cart")).await?;
    println!("{} and {} after {:.0?}", user.await?, cart.await?, start.elapsed());

    let deadline = Deadline::after(Duration::from_millis(30));
    match database.call_async_until(deadline, |_| query("report")).await {
        Err(CallError::TimedOut(late)) => println!("{late}"),
        other => println!("unexpected: {other:?}"),
    }

    // Dropping the future of a call cancels its job. If it has not begun, it never will; if it has,
    // it is told, and runs on until it looks.
    let mut dropped = Box::pin(database.call_async(|_| query("history")));
    let _ = dropped.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    drop(dropped);
    let snapshot = database.snapshot();
    let (running, left) = (snapshot.running, snapshot.totals.not_started(Rejection::Cancelled));
    println!("after dropping a future: {running} running, {left} cancelled unstarted");
    Ok(())
}

fn query(what: &'static str) -> &'static str {
    sleep(Duration::from_millis(100));
    what
}

/// Runs one future to its end on the present thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            // A wake-up before this line makes it return at once.
            Poll::Pending => thread::park(),
        }
    }
}
