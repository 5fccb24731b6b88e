//! What the figures were measured on.

use std::fs;
use std::thread;

use serde_json::{Value, json};

/// The machine and how busy it is. What the system does not tell is left empty.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
    load: String,
}

impl Machine {
    pub(crate) fn now() -> Self {
        let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpu = file("/proc/cpuinfo")
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split(':').nth(1))
            .unwrap_or_default()
            .trim()
            .to_owned();
        let load = file("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ");
        Self {
            cpu,
            cores: thread::available_parallelism().map_or(0, Into::into),
            kernel: file("/proc/sys/kernel/osrelease").trim().to_owned(),
            load,
        }
    }

    pub(crate) fn json(&self) -> Value {
        let Self { cpu, cores, kernel, load } = self;
        json!({
            "cpu": cpu,
            "cores": cores,
            "kernel": kernel,
            "os": std::env::consts::OS,
            "load_average": load,
        })
    }

    pub(crate) fn line(&self) -> String {
        let Self { cpu, cores, kernel, load } = self;
        format!("{cpu}, {cores} cores, {} {kernel}, load average {load}", std::env::consts::OS)
    }
}
