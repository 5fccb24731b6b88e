//! Submits, refuses, runs and joins a number of jobs, for a program that counts instructions.
//!
//! `instructions <what> <times>`. Run with two numbers, the difference is the cost of the times
//! between them: starting and ending cancel out. Only one thread works at a time: while jobs are
//! submitted or refused the worker is held by a gate, while they run nobody submits, and they have
//! all ended when they are joined. So nothing is contended, nobody spins or sleeps within what is
//! counted, and the counts of two runs differ by a few in a thousand.

use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};

use watertight::{Bulkhead, JobHandle, Rejected, Runtime};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.as_slice() {
        [what, times] => times.parse().map_err(Failure::from).and_then(|times| run(what, times)),
        _ => Err("usage: instructions <submit|refuse|run|join> <times>".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(what: &str, times: usize) -> Result<(), Failure> {
    // Everything is there from the start, so that no buffer grows within what is counted.
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("counted").threads(1).queue(times))
        .build()?;
    let bulkhead = runtime.bulkhead("counted")?;
    let (gate, held) = hold(&bulkhead)?;
    let mut handles: Vec<JobHandle<usize>> = Vec::with_capacity(times);
    match what {
        "submit" => {
            submit(&bulkhead, times, &mut handles)?;
            // They never run, and leave with the process.
            std::process::exit(0)
        }
        "refuse" => {
            let full = Runtime::builder().bulkhead(Bulkhead::builder("full").threads(1).queue(0));
            let full_runtime = full.build()?;
            let full = full_runtime.bulkhead("full")?;
            let (_gate, _held) = hold(&full)?;
            let refused = (0..times).filter(|n| {
                let n = *n;
                full.try_submit(move |_| n).is_err()
            });
            if refused.count() != times {
                return Err("one was let in".into());
            }
            std::process::exit(0)
        }
        "run" | "join" => {
            submit(&bulkhead, times, &mut handles)?;
            let last = handles.pop().ok_or("no times at all")?;
            drop(gate);
            held.join()?;
            // It waits for the last, and with it for all.
            last.join()?;
            if what == "run" {
                std::process::exit(0)
            }
            handles.into_iter().try_for_each(|handle| handle.join().map(drop))?;
            std::process::exit(0)
        }
        other => Err(format!("`{other}` is none of submit, refuse, run and join").into()),
    }
}

/// Occupies the one worker until the sender is dropped.
fn hold(bulkhead: &Bulkhead) -> Result<(Sender<()>, JobHandle<()>), Failure> {
    let (open, gate) = channel::<()>();
    let (started, has_started) = channel();
    let held = bulkhead
        .submit(move |_| {
            let _ = started.send(());
            let _ = gate.recv();
        })
        .map_err(Rejected::forget)?;
    has_started.recv()?;
    Ok((open, held))
}

fn submit(
    bulkhead: &Bulkhead,
    times: usize,
    handles: &mut Vec<JobHandle<usize>>,
) -> Result<(), Failure> {
    for number in 0..times {
        handles.push(bulkhead.submit(move |_| number).map_err(Rejected::forget)?);
    }
    Ok(())
}
