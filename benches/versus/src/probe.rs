//! Memory and idle CPU are a process's, so each is measured in a process of its own: this program
//! once more, with a question as its arguments.

use std::fs;
use std::process::Command;
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use crate::common::Failure;
use crate::common::rounds::Figures;
use crate::contenders::{Pool, each_contender, each_of_ours};
use crate::work;

const FLAG: &str = "--probe";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    /// What 256 threads cost that have worked and are idle.
    Threads,
    /// What a queued job costs.
    Queue,
}

pub(crate) const THREADS: usize = 256;
const QUEUED: u32 = 100_000;

/// The question in the arguments, if there is one: the topic and whom it is about.
pub(crate) fn asked(arguments: &[String]) -> Option<(Topic, &str)> {
    match arguments {
        [flag, topic, whom, ..] if flag == FLAG => match topic.as_str() {
            "threads" => Some((Topic::Threads, whom)),
            "queue" => Some((Topic::Queue, whom)),
            _ => None,
        },
        _ => None,
    }
}

/// Asks a new process.
pub(crate) fn ask(topic: Topic, whom: &str) -> Result<Figures, Failure> {
    let word = match topic {
        Topic::Threads => "threads",
        Topic::Queue => "queue",
    };
    let output = Command::new(std::env::current_exe()?).args([FLAG, word, whom]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let answer = String::from_utf8(output.stdout)?;
    let numbers = answer.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    let names: &[&'static str] = match topic {
        Topic::Threads => &["resident_mb", "idle_cpu_percent"],
        Topic::Queue => &["bytes_per_job"],
    };
    if numbers.len() != names.len() {
        return Err(format!("the probe answered `{answer}`").into());
    }
    Ok(names.iter().copied().zip(numbers).collect())
}

/// Answers a question on standard output.
pub(crate) fn answer((topic, whom): (Topic, &str)) -> Result<(), Failure> {
    let contenders = each_contender!(P => (P::NAME, threads::<P> as Probe, queue::<P> as Probe));
    let ours = each_of_ours!(P => (P::NAME, threads::<P> as Probe, queue::<P> as Probe));
    let (_, threads, queue) = contenders
        .into_iter()
        .chain(ours)
        .find(|(name, ..)| *name == whom)
        .ok_or(format!("nobody is called `{whom}`"))?;
    match topic {
        Topic::Threads => threads(),
        Topic::Queue => queue(),
    }
}

type Probe = fn() -> Result<(), Failure>;

fn threads<P: Pool>() -> Result<(), Failure> {
    let before = resident_bytes()?;
    let pool = P::start(THREADS, THREADS)?;
    // Threads that are started on demand are all started only if all are needed at once.
    let all = Arc::new(Barrier::new(THREADS));
    let handles: Vec<_> = (0..THREADS)
        .map(|_| {
            let all = Arc::clone(&all);
            pool.submit(move || {
                all.wait();
                work::empty()
            })
        })
        .collect::<Result<_, _>>()?;
    for handle in handles {
        P::join(handle)?;
    }
    thread::sleep(Duration::from_millis(300));
    let resident = resident_bytes()? - before;
    let cpu = cpu_nanos()?;
    thread::sleep(Duration::from_secs(1));
    // Of one core, over a second.
    let percent = (cpu_nanos()? - cpu) / 1e9 * 100.0;
    println!("{} {percent}", resident / 1e6);
    // Some wait for their threads on the way out, and some for ever.
    std::process::exit(0)
}

fn queue<P: Pool>() -> Result<(), Failure> {
    let pool = P::start(1, QUEUED as usize + 1)?;
    let (open, gate) = mpsc::channel::<()>();
    let (started, has_started) = mpsc::channel();
    pool.fire(move || {
        let _ = started.send(());
        let _ = gate.recv();
        0
    })?;
    has_started.recv()?;
    let before = resident_bytes()?;
    work::checked(u64::from(QUEUED), |_| {
        for _ in 0..QUEUED {
            pool.fire(work::empty)?;
        }
        println!("{}", (resident_bytes()? - before) / f64::from(QUEUED));
        drop(open);
        Ok(())
    })?;
    std::process::exit(0)
}

/// The resident memory of this process.
fn resident_bytes() -> Result<f64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmRSS")?;
    Ok(kib.parse::<f64>()? * 1024.0)
}

/// The CPU time of all threads of this process, from the scheduler's own account, which is finer
/// than the ticks of `/proc/self/stat`.
fn cpu_nanos() -> Result<f64, Failure> {
    let mut sum = 0.0;
    for task in fs::read_dir("/proc/self/task")? {
        // A thread may end meanwhile.
        if let Ok(account) = fs::read_to_string(task?.path().join("schedstat")) {
            let on_cpu = account.split(' ').next().ok_or("an empty schedstat")?;
            sum += on_cpu.parse::<f64>()?;
        }
    }
    Ok(sum)
}
