//! Reading what was rendered: by a small strict reader of our own, for the values, and by parsers that
//! are not ours, for whether it is valid and says the same to them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use watertight::metrics::{Format, Metrics};

/// One answer of a scrape.
#[derive(Debug, Clone)]
pub(crate) struct Scrape {
    pub(crate) format: Format,
    pub(crate) body: String,
    /// By name and labels.
    pub(crate) series: BTreeMap<Series, f64>,
    /// The metrics' types by the names that this format gives them.
    #[cfg_attr(not(all(feature = "http", feature = "r2d2")), allow(dead_code))]
    pub(crate) types: BTreeMap<String, String>,
}

/// A sample's name and its labels in the order of their names.
pub(crate) type Series = (String, BTreeMap<String, String>);

impl Scrape {
    pub(crate) fn of(metrics: &Metrics) -> Self {
        Self::parse(Format::Text, metrics.render(Format::Text))
    }

    /// Reads it, and fails where anything is not as the formats have it.
    pub(crate) fn parse(format: Format, body: String) -> Self {
        let (mut series, mut types, mut helps) =
            (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let mut family = String::new();
        let mut ended = false;
        assert!(body.ends_with('\n'), "the last line has no end");
        for line in body.lines() {
            assert!(!ended, "a line follows the end: {line}");
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, text) = help.split_once(' ').unwrap();
                assert!(helps.insert(name.to_owned()), "{name} comes twice");
                assert!(!text.is_empty() && !text.contains(['"', '\\']), "{text}");
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert!(helps.contains(name), "the type of {name} comes before its help");
                assert!(types.insert(name.to_owned(), kind.to_owned()).is_none());
                name.clone_into(&mut family);
            } else if let Some(unit) = line.strip_prefix("# UNIT ") {
                let (name, unit) = unit.split_once(' ').unwrap();
                assert!(name == family && name.ends_with(unit), "{line}");
                assert_eq!(format, Format::OpenMetrics);
            } else if line == "# EOF" {
                ended = true;
            } else {
                let (name, labels, value) = sample(line);
                assert!(name.starts_with(&family), "{name} stands in the block of {family}");
                let before = series.insert((name, labels), value);
                assert!(before.is_none(), "a series comes twice: {line}");
            }
        }
        assert_eq!(ended, format == Format::OpenMetrics);
        Self { format, body, series, types }
    }

    /// The value of the one series that has this name and these labels, among others.
    pub(crate) fn get(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let found = self.matching(name, labels);
        assert_eq!(found.len(), 1, "{name} with {labels:?}: {found:?}");
        found[0].1
    }

    /// The sum over all series that have this name and these labels, among others.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.matching(name, labels).iter().map(|(_, value)| value).sum()
    }

    pub(crate) fn matching(&self, name: &str, labels: &[(&str, &str)]) -> Vec<(&Series, f64)> {
        let has = |all: &BTreeMap<String, String>| {
            labels.iter().all(|(key, value)| all.get(*key).is_some_and(|other| other == value))
        };
        let all = self.series.iter().filter(|((other, all), _)| other == name && has(all));
        all.map(|(series, value)| (series, *value)).collect()
    }

    pub(crate) fn bulkheads(&self) -> BTreeSet<String> {
        self.matching("watertight_threads", &[])
            .into_iter()
            .map(|((_, labels), _)| labels["bulkhead"].clone())
            .collect()
    }

    /// Which series there are.
    pub(crate) fn names(&self) -> BTreeSet<Series> {
        self.series.keys().cloned().collect()
    }

    /// What has to hold in every answer, whatever goes on.
    pub(crate) fn check(&self) {
        for ((name, labels), value) in &self.series {
            assert!(value.is_finite() && *value >= 0.0, "{name} {labels:?} is {value}");
        }
        for bulkhead in &self.bulkheads() {
            let of = [("bulkhead", bulkhead.as_str())];
            let get = |name: &str| self.get(&format!("watertight_{name}"), &of);
            let (running, starting, queued) = (get("running"), get("starting"), get("queued"));
            let outcome =
                |outcome| self.get("watertight_ended_total", &[of[0], ("outcome", outcome)]);
            let ran = outcome("returned") + outcome("panicked");
            let ended = self.sum("watertight_ended_total", &of);
            let accepted = get("accepted_total");
            assert_eq!(accepted, ended + running + starting + queued, "of {bulkhead}: lost a job");
            let rejected = self.sum("watertight_rejected_total", &of);
            assert!(get("arrivals_total") >= accepted + rejected, "of {bulkhead}: made up a call");
            assert_eq!(get("queue_wait_seconds_count"), ran + running, "of {bulkhead}: starts");
            assert_eq!(get("run_seconds_count"), ran, "of {bulkhead}: ends");

            let threads = get("threads");
            assert!(get("running_limit") <= threads);
            assert!(running + starting <= get("running_limit"), "{running} + {starting} run");
            assert!(queued <= get("queued_limit"), "{queued} queued");
            assert!(get("waiting") <= get("waiting_limit"), "{} wait", get("waiting"));
            assert!(get("overdue") <= running, "{} of {running} overdue", get("overdue"));
            for level in ["running", "queued", "waiting"] {
                let (peak, limit) = (get(&format!("{level}_peak")), get(&format!("{level}_limit")));
                let now = get(level);
                assert!(now <= peak && peak <= limit, "{level}: {now}, {peak}, {limit}");
            }
            self.check_histogram("watertight_queue_wait_seconds", bulkhead);
            self.check_histogram("watertight_run_seconds", bulkhead);
        }
    }

    fn check_histogram(&self, name: &str, bulkhead: &str) {
        let of = [("bulkhead", bulkhead)];
        let buckets = self.matching(&format!("{name}_bucket"), &of);
        let bound = |series: &Series| match series.1["le"].as_str() {
            "+Inf" => f64::INFINITY,
            bound => bound.parse().unwrap(),
        };
        let mut buckets: Vec<(f64, f64)> =
            buckets.into_iter().map(|(series, value)| (bound(series), value)).collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert!(buckets.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1));
        let last = buckets.last().unwrap();
        assert_eq!(*last, (f64::INFINITY, self.get(&format!("{name}_count"), &of)));
    }

    /// Whether all counters that were there are at least what they were.
    pub(crate) fn has_not_fallen_since(&self, before: &Self) {
        for (series, old) in &before.series {
            let is_counter = ["_total", "_count", "_sum", "_bucket"]
                .iter()
                .any(|suffix| series.0.ends_with(suffix));
            if let (true, Some(new)) = (is_counter, self.series.get(series)) {
                assert!(new >= old, "{series:?} fell from {old} to {new}");
            }
        }
    }
}

/// Reads one line of a sample, undoing the escapes of its labels.
fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let end = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(end);
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    assert!(name.chars().all(is_name), "{name} is no name");
    let mut labels = BTreeMap::new();
    if rest.starts_with('{') {
        loop {
            let (key, after) = rest[1..].split_once("=\"").unwrap();
            assert!(key.chars().all(is_name), "{key} is no label");
            let (mut value, mut characters) = (String::new(), after.char_indices());
            let end = loop {
                match characters.next().unwrap() {
                    (_, '\\') => value.push(match characters.next().unwrap().1 {
                        'n' => '\n',
                        c @ ('\\' | '"') => c,
                        other => panic!("there is no escape of {other:?}"),
                    }),
                    (at, '"') => break at,
                    (_, c) => value.push(c),
                }
            };
            assert!(labels.insert(key.to_owned(), value).is_none(), "{key} comes twice");
            rest = &after[end + 1..];
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            assert!(rest.starts_with(','), "{line}");
        }
    }
    let value = rest.strip_prefix(' ').unwrap();
    (name.to_owned(), labels, value.parse().unwrap())
}

// ===== parsers that are not ours =====

/// Where `tests/fetch-parsers` has put them.
fn parsers() -> Option<PathBuf> {
    let named = std::env::var_os("WATERTIGHT_PARSERS").map(PathBuf::from);
    let usual = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("parsers");
    let found = named.into_iter().chain([usual]).find(|folder| folder.join("promtool").exists());
    if found.is_none() {
        let note = "there is no promtool: run `tests/fetch-parsers target/parsers`";
        assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty()), "{note}");
        eprintln!("left out: {note}");
    }
    found
}

/// Has all of them parsed by strangers: promtool for Prometheus text, and the parsers of Prometheus's
/// Python client for both, whose values must be ours. Says whether that could be done.
pub(crate) fn strangers_agree(scrapes: &[Scrape]) -> bool {
    let Some(parsers) = parsers() else { return false };
    for scrape in scrapes.iter().filter(|scrape| scrape.format == Format::Text) {
        promtool(&parsers, &scrape.body);
    }
    for (format, name) in [(Format::Text, "text"), (Format::OpenMetrics, "openmetrics")] {
        let those: Vec<_> = scrapes.iter().filter(|scrape| scrape.format == format).collect();
        if !those.is_empty() {
            python(&parsers, name, &those);
        }
    }
    true
}

fn promtool(parsers: &Path, body: &str) {
    let mut check = Command::new(parsers.join("promtool"));
    check.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut check = check.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    check.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let said = check.wait_with_output().unwrap();
    // It ends with an error for a complaint about style, too.
    assert!(
        said.status.success(),
        "promtool: {}{}\n{body}",
        String::from_utf8_lossy(&said.stdout),
        String::from_utf8_lossy(&said.stderr)
    );
}

fn python(parsers: &Path, name: &str, scrapes: &[&Scrape]) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let id = NEXT.fetch_add(1, Ordering::SeqCst);
    let folder = std::env::temp_dir().join(format!("watertight-{}-{id}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let files = scrapes.iter().enumerate().map(|(index, scrape)| {
        let file = folder.join(index.to_string());
        std::fs::write(&file, &scrape.body).unwrap();
        file
    });
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/metrics/parse.py");
    let mut parse = Command::new("python3");
    parse.args([script, name]).args(files).env("PYTHONPATH", parsers);
    let said = parse.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "the Python parser of {name}: {errors}");
    let parsed = String::from_utf8(said.stdout).unwrap();
    assert_eq!(parsed.lines().count(), scrapes.len());
    for (line, scrape) in parsed.lines().zip(scrapes) {
        let samples: Vec<(String, BTreeMap<String, String>, String)> =
            serde_json::from_str(line).unwrap();
        let theirs: BTreeMap<Series, f64> = samples
            .into_iter()
            .map(|(name, labels, value)| ((name, canonical(labels)), value.parse().unwrap()))
            .collect();
        let ours: BTreeMap<Series, f64> = scrape
            .series
            .iter()
            .map(|((name, labels), value)| ((name.clone(), canonical(labels.clone())), *value))
            .collect();
        let mut difference = String::new();
        for (series, value) in &ours {
            if theirs.get(series) != Some(value) {
                writeln!(difference, "{series:?}: {value}, {:?}", theirs.get(series)).unwrap();
            }
        }
        assert!(difference.is_empty() && ours.len() == theirs.len(), "they differ:\n{difference}");
    }
}

/// The bounds of buckets are numbers, and both are free in how they write them.
fn canonical(mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    if let Some(bound) = labels.get_mut("le").filter(|bound| *bound != "+Inf") {
        *bound = bound.parse::<f64>().unwrap().to_string();
    }
    labels
}
