//! Hours of everything at once, on real threads.
//!
//! ```text
//! cargo soak                  for a minute
//! cargo soak 3600             for an hour
//! cargo soak 60 SEED          with the random numbers of an earlier run
//! ```
//!
//! Round after round a runtime is built, hammered in every way that there is, and closed. After each
//! round every count is exact, exactly `threads` jobs start together, and threads and file descriptors
//! are back where they were; over all rounds memory does not creep. Plain `cargo test` does not run it.
#![cfg(not(any(watertight_loom, watertight_shuttle)))]

#[cfg(target_os = "linux")]
mod round;

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((first, rest)) if first == "run" => run(rest),
        _ => {
            println!("soak: `cargo soak [SECONDS [SEED]]` runs it");
            std::process::ExitCode::SUCCESS
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn run(_: &[String]) -> std::process::ExitCode {
    println!("soak: it reads /proc, so it runs on Linux only");
    std::process::ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
fn run(args: &[String]) -> std::process::ExitCode {
    use std::time::{Duration, Instant};

    let number = |index: usize| args.get(index).map(|text| text.parse().expect("a number"));
    let seconds = number(0).unwrap_or(60);
    let seed = number(1).unwrap_or_else(|| fastrand::u64(..));
    fastrand::seed(seed);
    println!("soak: {seconds} s with seed {seed}");
    // Panics are part of the game; only what goes wrong is to be read.
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let said = payload.downcast_ref::<&str>().copied();
        let said = said.or(payload.downcast_ref::<String>().map(String::as_str));
        if said.is_some_and(|said| !said.contains("on purpose")) {
            eprintln!("{panic}");
        }
    }));

    // Caches, arenas and the like fill in the first rounds.
    let mut totals = round::Totals::default();
    for _ in 0..20 {
        round::play(&mut totals);
    }
    let before = round::Footprint::now();
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut spoken = Instant::now();
    let mut most = before;
    while Instant::now() < end {
        round::play(&mut totals);
        let now = round::Footprint::settled_at(&before);
        most = most.max(now);
        if spoken.elapsed() > Duration::from_secs(10) {
            spoken = Instant::now();
            println!("soak: {totals}; {now}");
        }
    }
    let after = round::Footprint::now();
    println!("soak: {totals}\nsoak: before {before}\nsoak: after  {after}\nsoak: most   {most}");
    assert!(
        after.kilobytes < before.kilobytes + 32 * 1024,
        "memory creeps: {before}, then {after}",
    );
    std::process::ExitCode::SUCCESS
}
