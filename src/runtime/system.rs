//! What the system allows this process: threads, and CPU time.

use std::fs;

/// The limits that were found. `None` where there is no limit, or none could be read.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct SystemLimits {
    /// How many more threads may be started, and the setting that says so.
    pub(super) threads: Option<(u64, &'static str)>,
    /// The container's CPU quota in cores.
    pub(super) cpu_quota: Option<f64>,
}

impl SystemLimits {
    pub(super) fn read() -> Self {
        let nproc = process_limit().map(|limit| (limit, "RLIMIT_NPROC"));
        let pids = cgroup_file("pids", "pids.max").and_then(|max| {
            let max: u64 = max.trim().parse().ok()?;
            let used = cgroup_file("pids", "pids.current")?.trim().parse().unwrap_or(0);
            Some((max.saturating_sub(used), "pids.max"))
        });
        // These two are the whole system's, and hold for root too.
        let all = kernel_limit("threads-max").map(|limit| (limit, "kernel.threads-max"));
        let ids = kernel_limit("pid_max").map(|limit| (limit, "kernel.pid_max"));
        let threads = [nproc, pids, all, ids].into_iter().flatten().min_by_key(|(limit, _)| *limit);
        Self { threads, cpu_quota: cpu_quota() }
    }
}

/// The soft limit on this user's processes and threads. The system itself exempts root from it.
///
/// It counts all of the user's, of which ours are a part: so a plan that passes may still meet the
/// limit, and then the thread that cannot be started is the error.
fn process_limit() -> Option<u64> {
    if effective_user()? == 0 {
        return None;
    }
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max processes"))?;
    line["Max processes".len()..].split_whitespace().next()?.parse().ok()
}

fn kernel_limit(name: &str) -> Option<u64> {
    fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok()
}

fn effective_user() -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Reads `file` of this process's cgroup: of the `controller` hierarchy of version 1, or the unified
/// one of version 2.
pub(crate) fn cgroup_file(controller: &str, file: &str) -> Option<String> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    cgroup_paths(&groups, controller, file)
        .into_iter()
        .find_map(|path| fs::read_to_string(path).ok())
}

/// Where `file` may be, given the text of `/proc/self/cgroup`; the most specific first. Inside a
/// container the group's own path is often not mounted, and the root of the mount is the group.
fn cgroup_paths(groups: &str, controller: &str, file: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let path = path.trim_end_matches('/');
        if controllers.is_empty() {
            paths.push(format!("/sys/fs/cgroup{path}/{file}"));
            paths.push(format!("/sys/fs/cgroup/{file}"));
        } else if controllers.split(',').any(|one| one == controller) {
            paths.push(format!("/sys/fs/cgroup/{controller}{path}/{file}"));
            paths.push(format!("/sys/fs/cgroup/{controller}/{file}"));
        }
    }
    paths
}

fn cpu_quota() -> Option<f64> {
    if let Some(max) = cgroup_file("cpu", "cpu.max") {
        return quota_v2(&max);
    }
    let quota = cgroup_file("cpu", "cpu.cfs_quota_us")?;
    let period = cgroup_file("cpu", "cpu.cfs_period_us")?;
    quota_of(&quota, &period)
}

/// The text of version 2's `cpu.max`: "max 100000", or "150000 100000" for a core and a half.
fn quota_v2(text: &str) -> Option<f64> {
    let mut fields = text.split_whitespace();
    quota_of(fields.next()?, fields.next().unwrap_or("100000"))
}

fn quota_of(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    // Version 1 writes -1 for no quota.
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn quotas_of_both_versions_are_read() {
        assert_eq!(quota_v2("max 100000\n"), None);
        assert_eq!(quota_v2("150000 100000\n"), Some(1.5));
        assert_eq!(quota_of("-1\n", "100000\n"), None);
        assert_eq!(quota_of("50000\n", "100000\n"), Some(0.5));
        assert_eq!(quota_v2("nonsense"), None);
    }

    #[test]
    fn the_group_s_own_path_comes_before_the_root_of_the_mount() {
        let v2 = cgroup_paths("0::/system.slice/shop.service\n", "cpu", "cpu.max");
        assert_eq!(
            v2,
            ["/sys/fs/cgroup/system.slice/shop.service/cpu.max", "/sys/fs/cgroup/cpu.max"],
        );
        let v1 = cgroup_paths("4:cpu,cpuacct:/shop\n2:pids:/other\n", "cpu", "cpu.cfs_quota_us");
        assert_eq!(
            v1,
            ["/sys/fs/cgroup/cpu/shop/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"],
        );
    }
}
