//! An idle runtime uses no CPU. In a binary of its own, since it reads the whole process's time.
#![cfg(all(target_os = "linux", not(watertight_loom)))]

use std::time::Duration;

use watertight::{Bulkhead, Runtime};

/// User and system time of this process so far, in the kernel's ticks of 10 ms.
fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    // The second field is the name, in parentheses, and may contain anything.
    let after_name = &stat[stat.rfind(')').expect("the name ends") + 2..];
    let fields: Vec<&str> = after_name.split(' ').collect();
    fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime")
}

#[test]
fn eight_idle_bulkheads_of_sixteen_threads_use_no_cpu() {
    let mut builder = Runtime::builder();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        builder = builder.bulkhead(Bulkhead::builder(name).threads(16));
    }
    let runtime = builder.build().expect("it builds");
    for bulkhead in runtime.bulkheads() {
        let jobs: Vec<_> =
            (0..32).map(|_| bulkhead.submit(|_| ()).expect("there is room")).collect();
        for job in jobs {
            job.join().expect("it runs");
        }
    }
    // Until every worker has parked. A short sleep is what is being measured, not a race.
    std::thread::sleep(Duration::from_millis(500));
    let before = cpu_ticks();
    std::thread::sleep(Duration::from_secs(5));
    let used = cpu_ticks() - before;
    // 128 workers that looked once a millisecond would use hundreds of ticks.
    assert!(used <= 2, "{used} ticks of CPU time in 5 s of doing nothing");
}
