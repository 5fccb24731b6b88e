//! Building: numbers, names, and what the system allows. Wrong ones are errors that say so.

use std::time::Duration;

use watertight::{BuildError, BuildErrorKind, Bulkhead, BulkheadBuilder, RejectionPolicy, Runtime};
#[cfg(target_os = "linux")]
use watertight::{Scheduling, ThreadKind};

use crate::support::{build, capacity_is};
#[cfg(target_os = "linux")]
use crate::support::{child, ends, eventually, memory, part, threads_named, within};

fn refusal(bulkhead: BulkheadBuilder) -> BuildError {
    Runtime::builder().bulkhead(bulkhead).build().unwrap_err()
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn c98_numbers_that_no_system_has_are_refused_by_the_name_of_their_setting() {
    let past_u32 = usize::try_from(u64::from(u32::MAX) + 1).unwrap_or(usize::MAX);
    let largest_signed = usize::try_from(i64::MAX).unwrap_or(usize::MAX);
    let base = || Bulkhead::builder("c98").threads(1);
    for value in [usize::MAX, usize::MAX - 1, largest_signed, past_u32, usize::MAX / 2 + 1] {
        let wait = RejectionPolicy::Wait { at_most: Duration::ZERO, submitters: value };
        for (setting, bulkhead) in [
            ("threads", base().threads(value)),
            ("threads", base().threads(value).queue(1)),
            ("queue", base().queue(value)),
            ("submitters", base().rejection(wait)),
        ] {
            let error = refusal(bulkhead);
            assert_eq!((error.bulkhead(), error.setting()), (Some("c98"), setting), "{error}");
            assert_eq!(error.kind(), BuildErrorKind::InvalidSetting, "{error}");
            let text = error.to_string();
            assert!(text.contains(&value.to_string()) && text.contains("at most"), "{text}");
        }
    }
    let nobody = RejectionPolicy::Wait { at_most: Duration::MAX, submitters: 0 };
    for (setting, bulkhead) in [
        ("threads", base().threads(0)),
        ("threads", Bulkhead::builder("c98")),
        ("submitters", base().rejection(nobody)),
        ("queue", base().queue(0).rejection(RejectionPolicy::DropOldest)),
        ("call_limit", base().call_limit(Duration::ZERO)),
        ("stack_size", base().stack_size(0)),
        ("wait_buckets", base().wait_buckets([Duration::ZERO])),
        ("wait_buckets", base().wait_buckets([SECOND, SECOND])),
        ("run_buckets", base().run_buckets([SECOND * 2, SECOND])),
        ("run_buckets", base().run_buckets(std::iter::repeat(SECOND))),
        ("core_count", base().core_count(0)),
        ("cores", base().cores([])),
        ("core_count", base().core_count(usize::MAX)),
        ("cores", base().cores([usize::MAX])),
    ] {
        let error = refusal(bulkhead);
        assert_eq!((error.bulkhead(), error.setting()), (Some("c98"), setting), "{error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn c98_what_is_refused_or_merely_large_takes_no_memory() {
    if part().is_none() {
        let this = "building::c98_what_is_refused_or_merely_large_takes_no_memory";
        let output = ends("the child", child(this, "child"));
        assert!(output.status.success(), "{output:?}");
        return;
    }
    drop(build(Bulkhead::builder("c98").threads(1)));
    let before = memory();
    let wait = RejectionPolicy::Wait { at_most: Duration::MAX, submitters: 1 << 30 };
    let large = Bulkhead::builder("c98").threads(1).queue(1 << 30).rejection(wait);
    let (_runtime, bulkhead) = build(large);
    let footprint = bulkhead.footprint();
    assert_eq!(footprint.callers, 1 + (1 << 30) + (1 << 30));
    capacity_is(&bulkhead, 1);
    // More threads than any Linux has, whoever asks, are refused before anything is made for them.
    for threads in [1 << 22, 1 << 30] {
        let error = within("an impossible build", move || {
            refusal(Bulkhead::builder("c98").threads(threads))
        });
        assert_eq!(error.setting(), "threads", "{error}");
    }
    // Many bulkheads that are each possible, and not together.
    let crowd = (0..64).fold(Runtime::builder(), |all, n| {
        all.bulkhead(Bulkhead::builder(format!("c98-{n}")).threads(1 << 21))
    });
    let error = crowd.build().unwrap_err();
    assert_eq!(error.kind(), BuildErrorKind::ThreadLimit, "{error}");
    assert!(error.to_string().contains(&(64_u64 * ((1 << 21) + 1)).to_string()), "{error}");
    let grown = memory().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes more than before");
}

/// `child` with the rights of nobody, who may have `threads` threads.
#[cfg(target_os = "linux")]
fn limited(test: &str, part: &str, threads: u32) -> Option<std::process::Command> {
    use std::os::unix::process::CommandExt;
    let skip = |why: &str| {
        eprintln!("SKIPPED: a limit on threads is not tested, since {why}");
        None
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    if user.split_whitespace().nth(1) != Some("0") {
        return skip("the test is not run by root, who could become somebody without threads");
    }
    // A user of our own for each test, since the limit counts all threads of a user.
    let parts = ["plan", "spawn", "niceness", "nice"];
    let part_number = parts.iter().position(|one| *one == part).expect("a part of this file");
    let nobody = 61_000 + std::process::id() % 500 * 4 + u32::try_from(part_number).unwrap();
    let inner = child(test, part);
    let mut limited = std::process::Command::new("prlimit");
    limited.arg(format!("--nproc={threads}:{threads}")).arg(inner.get_program());
    limited.args(inner.get_args()).uid(nobody).gid(nobody);
    for (name, value) in inner.get_envs() {
        limited.env(name, value.unwrap());
    }
    let mut probe = std::process::Command::new("prlimit");
    probe.arg("--nproc").arg(inner.get_program()).arg("--list").uid(nobody).gid(nobody);
    match probe.output() {
        Ok(output) if output.status.success() => Some(limited),
        Ok(output) => skip(&format!("nobody may not run this test: {output:?}")),
        Err(error) => skip(&format!("there is no prlimit: {error}")),
    }
}

#[cfg(target_os = "linux")]
#[test]
fn c45_a_sum_of_threads_past_the_user_s_limit_is_refused_with_both_numbers() {
    if part().is_some() {
        let before = threads_named("");
        let forty = || {
            (0..40).fold(Runtime::builder(), |all, n| {
                let threads = if n == 17 { 65 } else { 64 };
                all.bulkhead(Bulkhead::builder(format!("c45-{n}")).threads(threads))
            })
        };
        let error = forty().build().unwrap_err();
        assert_eq!(error.kind(), BuildErrorKind::ThreadLimit, "{error}");
        assert_eq!((error.bulkhead(), error.setting()), (Some("c45-17"), "threads"));
        let text = error.to_string();
        for part in ["2601", "1000", "RLIMIT_NPROC"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(threads_named(""), before, "nothing was started");
        // What fits is built, and the plan tells the limit.
        let (runtime, bulkhead) = build(Bulkhead::builder("c45").threads(64));
        assert_eq!((runtime.plan().thread_limit, runtime.plan().threads), (Some(1_000), 65));
        capacity_is(&bulkhead, 64);
        return;
    }
    let this = "building::c45_a_sum_of_threads_past_the_user_s_limit_is_refused_with_both_numbers";
    let Some(command) = limited(this, "plan", 1_000) else { return };
    let output = ends("the child", command);
    assert!(output.status.success(), "{output:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn c43_a_limit_met_half_way_leaves_nothing_behind_and_a_retry_works() {
    if part().is_some() {
        // Half of the limit is taken by the first, so that the second starts some and not all.
        let (first, _) = build(Bulkhead::builder("c43a").threads(20));
        let before = threads_named("");
        let started = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let second = || {
            let hook = std::sync::Arc::clone(&started);
            let counted = Bulkhead::builder("c43b").threads(2).on_thread_start(move |_| {
                hook.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            });
            Runtime::builder().bulkhead(counted).bulkhead(Bulkhead::builder("c43c").threads(20))
        };
        for _ in 0..20 {
            let error = second().build().unwrap_err();
            assert_eq!(error.kind(), BuildErrorKind::Spawn, "{error}");
            assert_eq!((error.bulkhead(), error.setting()), (Some("c43c"), "threads"));
            assert!(error.to_string().contains("asks for 20"), "{error}");
            let source = std::error::Error::source(&error).unwrap();
            assert!(source.to_string().contains("temporarily unavailable"), "{source}");
            // The system shows a joined thread for a moment more.
            eventually("those that were started are gone", || threads_named("") == before);
        }
        assert_eq!(started.load(std::sync::atomic::Ordering::SeqCst), 0, "no user code has run");
        assert!(first.shutdown(Duration::MAX).unwrap().is_clean());
        let runtime = second().build().unwrap();
        capacity_is(&runtime.bulkhead("c43c").unwrap(), 20);
        return;
    }
    let this = "building::c43_a_limit_met_half_way_leaves_nothing_behind_and_a_retry_works";
    let Some(command) = limited(this, "spawn", 36) else { return };
    let output = ends("the child", command);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn c46_stated_numbers_are_never_changed() {
    for threads in [1, 7, 64] {
        let (runtime, bulkhead) = build(Bulkhead::builder("c46").threads(threads).queue(3));
        let plan = runtime.plan();
        assert_eq!((plan.threads, plan.bulkheads[0].threads.len()), (threads + 1, threads + 1));
        let now = bulkhead.snapshot();
        assert_eq!((now.threads, now.limit, now.queue), (threads, threads, 3));
        assert_eq!(bulkhead.footprint().callers, threads + 3);
        capacity_is(&bulkhead, threads);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn c46_a_container_s_quota_is_reported_and_changes_nothing() {
    use std::fs;
    if let Some(quota) = part() {
        let (runtime, bulkhead) = build(Bulkhead::builder("c46").threads(8));
        assert_eq!(runtime.plan().cpu_quota, Some(quota.parse().unwrap()));
        assert!(runtime.plan().warnings.is_empty(), "{:?}", runtime.plan().warnings);
        assert_eq!(bulkhead.snapshot().threads, 8);
        capacity_is(&bulkhead, 8);
        let allowed = runtime.plan().allowed_cores.clone().unwrap();
        let pinned = Bulkhead::builder("c46").threads(8).core_count(allowed.len());
        let pinned = Runtime::builder().bulkhead(pinned).build().unwrap();
        // Pinned to more than the quota, it is told, and still has what it stated.
        let over = f64::from(u32::try_from(allowed.len()).unwrap()) > quota.parse().unwrap();
        assert_eq!(pinned.plan().warnings.len(), usize::from(over));
        assert_eq!(pinned.plan().bulkheads[0].threads.len(), 9);
        return;
    }
    let this = "building::c46_a_container_s_quota_is_reported_and_changes_nothing";
    for (quota, micros) in [("0.5", "50000"), ("1.5", "150000")] {
        let name = format!("watertight-test-{}", std::process::id());
        let group = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].iter().find_map(|root| {
            let group = std::path::Path::new(root).join(&name);
            fs::create_dir(&group).ok()?;
            let set = fs::write(group.join("cpu.cfs_quota_us"), micros)
                .or_else(|_| fs::write(group.join("cpu.max"), format!("{micros} 100000")));
            if set.is_err() {
                fs::remove_dir(&group).unwrap();
            }
            set.ok().map(|()| group)
        });
        let Some(group) = group else {
            eprintln!("SKIPPED: a quota is not tested, since no group can be made for one");
            return;
        };
        let inner = child(this, quota);
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""]).arg(&group);
        command.arg(inner.get_program()).args(inner.get_args());
        for (name, value) in inner.get_envs() {
            command.env(name, value.unwrap());
        }
        let output = ends("the child", command);
        let _ = fs::remove_dir(&group);
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn c49_names_that_cannot_be_shown_are_refused_with_the_name_in_the_error() {
    let long = "x".repeat(1_025);
    for name in
        ["", "a\0b", "\0", "line\nbreak", "tab\t", "\u{1b}[31m", "\u{85}", " db", "db ", &long]
    {
        let error = refusal(Bulkhead::builder(name).threads(1));
        assert_eq!(error.kind(), BuildErrorKind::InvalidSetting, "{name:?}");
        assert_eq!((error.bulkhead(), error.setting()), (Some(name), "name"), "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("{name:?}")), "{text}");
        assert!(!text.contains(char::is_control), "{text:?}");
    }
    let twice = Runtime::builder()
        .bulkhead(Bulkhead::builder("db").threads(1))
        .bulkhead(Bulkhead::builder("db").threads(2));
    assert_eq!(twice.build().unwrap_err().kind(), BuildErrorKind::DuplicateName);
}

#[cfg(target_os = "linux")]
#[test]
fn c49_long_names_are_cut_for_the_system_only_and_stay_apart() {
    let long = "c49-".to_owned() + &"x".repeat(296);
    let names = [
        &long,
        "🦀🦀🦀🦀🦀🦀🦀",
        "🦀🦀🦀🦀🦀🦀🐙",
        "recommendations-eu",
        "recommendations-us",
        "recommendations-us2",
        "a \"quoted\" one",
        "ünïcödé-nämé",
        "back\\slash",
        "%s%n",
    ];
    let runtime = names
        .iter()
        .fold(Runtime::builder(), |all, name| all.bulkhead(Bulkhead::builder(*name).threads(11)))
        .build()
        .unwrap();
    let mut seen = std::collections::HashSet::new();
    for (name, planned) in names.iter().zip(&runtime.plan().bulkheads) {
        let bulkhead = runtime.bulkhead(name).unwrap();
        assert_eq!((bulkhead.name(), &*bulkhead.snapshot().bulkhead), (*name, *name));
        assert_eq!((&*planned.bulkhead, planned.threads.len()), (*name, 12));
        for (worker, thread) in planned.threads.iter().enumerate() {
            assert!(thread.len() <= 15 && thread.starts_with("wt-"), "{thread}");
            let end = if worker == 11 { "-t".to_owned() } else { format!("-{worker}") };
            assert!(thread.ends_with(&end), "{thread}");
            assert!(seen.insert(thread.clone()), "{thread} is there twice");
        }
        // The system shows what the plan says, and so do the standard library and the context.
        let shown = bulkhead.call(|ctx| {
            let comm = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
            let name = std::thread::current().name().map(str::to_owned);
            (comm.trim_end_matches('\n').to_owned(), name, ctx.worker(), ctx.bulkhead().to_owned())
        });
        let (comm, std_name, worker, context) = shown.unwrap();
        assert_eq!(comm, planned.threads[worker]);
        assert_eq!((std_name.as_ref(), &*context), (Some(&comm), *name));
    }
}

/// The niceness and the scheduling class of each thread.
#[cfg(target_os = "linux")]
type Classes = Vec<(i32, u32)>;

/// Those of the runtime's workers, and of its other threads.
#[cfg(target_os = "linux")]
fn classes(runtime: &Runtime) -> (Classes, Classes) {
    let bulkhead = runtime.bulkheads().next().unwrap().name().to_owned();
    let audit = runtime.audit();
    let class = |tid: Option<u32>| {
        let stat =
            std::fs::read_to_string(format!("/proc/self/task/{}/stat", tid.unwrap())).unwrap();
        let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        (fields[16].parse().unwrap(), fields[38].parse().unwrap())
    };
    let of = |is_worker: bool| {
        let threads = audit.threads_of(&bulkhead);
        let threads = threads
            .filter(|one| matches!(one.kind, Some(ThreadKind::Worker(_))) == is_worker)
            .map(|one| class(one.tid));
        threads.collect()
    };
    (of(true), of(false))
}

#[cfg(target_os = "linux")]
const ORDINARY: u32 = 0;

#[cfg(target_os = "linux")]
#[test]
fn a_nice_bulkhead_s_workers_are_nice_and_its_timekeeper_is_not() {
    let (usual, _) = build(Bulkhead::builder("usual").threads(1));
    let (_, others) = classes(&usual);
    let [(own, ORDINARY)] = others[..] else { panic!("not the usual class: {others:?}") };
    assert_eq!(usual.plan().bulkheads[0].scheduling, [Scheduling::NotAsked]);

    let nicer = own + 2;
    let (nice, bulkhead) = build(Bulkhead::builder("nice").threads(2).niceness(nicer));
    assert_eq!(nice.plan().bulkheads[0].scheduling, [Scheduling::Applied, Scheduling::Applied]);
    assert_eq!(classes(&nice), (vec![(nicer, ORDINARY); 2], vec![(own, ORDINARY)]));
    capacity_is(&bulkhead, 2);
}

#[cfg(all(target_os = "linux", feature = "background"))]
#[test]
fn a_background_bulkhead_s_workers_are_in_the_idle_class_and_its_timekeeper_is_not() {
    const IDLE: u32 = 5;
    let (runtime, bulkhead) = build(Bulkhead::builder("back").threads(2).background());
    assert_eq!(runtime.plan().bulkheads[0].scheduling, [Scheduling::Applied, Scheduling::Applied]);
    let (workers, others) = classes(&runtime);
    assert!(workers.iter().all(|(_, class)| *class == IDLE), "{workers:?}");
    assert!(others.iter().all(|(_, class)| *class == ORDINARY), "{others:?}");
    capacity_is(&bulkhead, 2);
}

#[cfg(all(target_os = "linux", feature = "background"))]
#[test]
fn a_service_that_was_started_nice_can_have_bulkheads_in_the_background() {
    const IDLE: u32 = 5;
    if part().is_some() {
        let me = rustix::thread::gettid();
        rustix::process::setpriority_process(Some(me), 5).unwrap();
        let (runtime, _bulkhead) = build(Bulkhead::builder("back").threads(1).background());
        assert_eq!(runtime.plan().bulkheads[0].scheduling, [Scheduling::Applied]);
        assert_eq!(classes(&runtime), (vec![(5, IDLE)], vec![(5, ORDINARY)]));
        return;
    }
    let this = "building::a_service_that_was_started_nice_can_have_bulkheads_in_the_background";
    let Some(command) = limited(this, "nice", 1_000) else { return };
    let output = ends("the child", command);
    assert!(output.status.success(), "{output:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_niceness_that_the_system_denies_is_reported_and_costs_no_thread() {
    if part().is_some() {
        let (runtime, bulkhead) = build(Bulkhead::builder("denied").threads(2).niceness(-5));
        for scheduling in &runtime.plan().bulkheads[0].scheduling {
            let Scheduling::Denied(why) = scheduling else { panic!("{scheduling:?}") };
            assert!(why.contains("ermi"), "{why}");
        }
        assert!(classes(&runtime).0.iter().all(|(niceness, _)| *niceness >= 0));
        capacity_is(&bulkhead, 2);
        return;
    }
    let this = "building::a_niceness_that_the_system_denies_is_reported_and_costs_no_thread";
    let Some(command) = limited(this, "niceness", 1_000) else { return };
    let output = ends("the child", command);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_niceness_that_no_system_has_is_refused_with_its_bounds() {
    for niceness in [20, -21, i32::MIN, i32::MAX] {
        let error = refusal(Bulkhead::builder("rude").threads(1).niceness(niceness));
        assert_eq!((error.bulkhead(), error.setting()), (Some("rude"), "niceness"), "{error}");
        let text = error.to_string();
        assert!(text.contains(&niceness.to_string()) && text.contains("from -20 to 19"), "{text}");
    }
    #[cfg(feature = "background")]
    {
        let both = Bulkhead::builder("rude").threads(1).niceness(5).background();
        let error = refusal(both);
        assert_eq!((error.bulkhead(), error.setting()), (Some("rude"), "niceness"), "{error}");
        assert!(error.to_string().contains("choose one of them"), "{error}");
    }
}
