//! The shape of the repository, kept by tests: folders under `src` are floors and imports point
//! down, threads and locks come in through one door, and the top level stays as small as it is.
//!
//! The scan reads text, so it sees code under every `cfg`, the models' and other systems' too.
#![cfg(not(any(watertight_loom, watertight_shuttle)))]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Whether the modules of one floor may import each other.
#[derive(Clone, Copy, PartialEq)]
enum Neighbours {
    /// One vocabulary in several files: an error names a time limit, an event mentions an outcome.
    Family,
    Strangers,
}
use Neighbours::{Family, Strangers};

/// The modules of each floor, bottom floor first. A module may import from lower floors only.
const FLOORS: &[(Neighbours, &[&str])] = &[
    (Strangers, &["sync"]),
    (Family, &["contain", "error", "event", "name", "time", "vitals"]),
    (Strangers, &["compartment", "policy"]),
    (Strangers, &["bulkhead"]),
    (Strangers, &["runtime"]),
    (Strangers, &["integrations", "metrics"]),
];

/// The loom models and the random schedules see every floor, and nothing may import them.
const TESTERS: &[&str] = &["models", "schedules"];

/// The floor that wraps threads, locks and atomics, so that loom can replace them.
const DOOR: &str = "sync";

/// What stands at the top level, besides dotfiles and `target`.
const TOP_LEVEL: &[&str] = &[
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "benches",
    "docs",
    "examples",
    "src",
    "tests",
];

// ---- The repository --------------------------------------------------------------------------

#[test]
fn imports_point_down() {
    assert_none(&over_the_sources(wrong_imports));
}

#[test]
fn only_the_sync_floor_touches_std_sync_and_friends() {
    assert_none(&over_the_sources(past_the_door));
}

#[test]
fn every_module_has_a_floor() {
    assert_none(&over_the_sources(|file, _| unknown_module(file).into_iter().collect()));
}

#[test]
fn the_changelog_has_a_heading_for_this_version() {
    let heading = format!("## [{}]", env!("CARGO_PKG_VERSION"));
    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    assert!(
        changelog.lines().any(|line| line.starts_with(&heading)),
        "CHANGELOG.md has no heading that starts with `{heading}`"
    );
}

#[test]
fn the_top_level_holds_what_it_should_and_nothing_else() {
    let found: BTreeSet<String> = fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.') && name != "target")
        .collect();
    let wanted: BTreeSet<String> = TOP_LEVEL.iter().map(ToString::to_string).collect();
    let missing: Vec<_> = wanted.difference(&found).collect();
    let extra: Vec<_> = found.difference(&wanted).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "at the top level, missing: {missing:?}; not expected: {extra:?}"
    );
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn assert_none(offences: &[String]) {
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

/// Applies a rule to every file under `src`, in a stable order.
fn over_the_sources(rule: impl Fn(&str, &str) -> Vec<String>) -> Vec<String> {
    let mut files = Vec::new();
    collect(&root().join("src"), "", &mut files);
    files.sort();
    assert!(files.iter().any(|file| file == "lib.rs"), "the scan did not find src/lib.rs");
    let read = |file: &String| fs::read_to_string(root().join("src").join(file)).unwrap();
    files.iter().flat_map(|file| rule(file, &read(file))).collect()
}

/// Lists the Rust files below `folder`, each by its path from `src` with forward slashes.
fn collect(folder: &Path, prefix: &str, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &format!("{name}/"), files);
        } else if entry.path().extension().is_some_and(|extension| extension == "rs") {
            files.push(name);
        }
    }
}

// ---- The rules -------------------------------------------------------------------------------

/// Imports that do not point to a lower floor.
fn wrong_imports(file: &str, source: &str) -> Vec<String> {
    let module = module_of(file);
    // A module without a floor is `every_module_has_a_floor`'s to report; lib.rs and the models
    // stand outside the house.
    let Some((me, mine)) = module.first().and_then(|me| Some((*me, floor_of(me)?))) else {
        return Vec::new();
    };
    let mut offences = Vec::new();
    for path in paths(source) {
        let Some(target) = path.top_module(&module) else { continue };
        let complaint = match floor_of(target) {
            _ if target == me => continue,
            Some(theirs) if theirs < mine => continue,
            Some(theirs) if theirs == mine && FLOORS[mine].0 == Family => continue,
            Some(theirs) => format!("imports `{target}` (floor {theirs})"),
            None if TESTERS.contains(&target) => {
                format!("imports `{target}`, which only tests the others")
            }
            None => format!("imports `{target}`, which FLOORS in tests/floors.rs does not list"),
        };
        offences.push(format!("{file}:{}: `{me}` (floor {mine}) {complaint}", path.line));
    }
    offences.dedup();
    offences
}

/// Uses of threads, locks and atomics that loom could not replace.
fn past_the_door(file: &str, source: &str) -> Vec<String> {
    let module = module_of(file);
    let me = module.first().copied().unwrap_or("lib.rs");
    if me == DOOR || TESTERS.contains(&me) {
        return Vec::new();
    }
    let mut offences = Vec::new();
    for path in paths(source) {
        let segments: Vec<&str> = path.segments.iter().map(String::as_str).collect();
        let used = match segments[..] {
            ["std" | "core" | "alloc", "sync" | "thread" | "thread_local" | "*", ..] => {
                segments[..2].join("::")
            }
            ["parking_lot" | "loom" | "shuttle", ..] => segments[0].to_owned(),
            _ => continue,
        };
        offences.push(format!(
            "{file}:{}: `{me}` uses `{used}`, which only `{DOOR}` (floor 0) may",
            path.line
        ));
    }
    offences.dedup();
    offences
}

fn unknown_module(file: &str) -> Option<String> {
    let me = *module_of(file).first()?;
    (!TESTERS.contains(&me) && floor_of(me).is_none()).then(|| {
        format!(
            "{file}: `{me}` has no floor; add it to FLOORS in tests/floors.rs, where it belongs"
        )
    })
}

fn floor_of(module: &str) -> Option<usize> {
    FLOORS.iter().position(|(_, modules)| modules.contains(&module))
}

/// The module that a file is: `time/clock.rs` is `[time, clock]`, `time/mod.rs` is `[time]`.
fn module_of(file: &str) -> Vec<&str> {
    let mut module: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    if matches!(module.last(), Some(&("mod" | "lib"))) {
        module.pop();
    }
    module
}

// ---- The scanner -----------------------------------------------------------------------------

/// A path as written in the source, in a `use` or anywhere else; a group counts as one path for
/// each of its members.
struct Mention {
    line: usize,
    segments: Vec<String>,
    /// How many `mod name { .. }` of the file stand around it.
    nested: usize,
}

impl Mention {
    /// The top-level module that the path leads to, when it starts at `crate` or `super`.
    fn top_module<'a>(&'a self, module: &[&'a str]) -> Option<&'a str> {
        let supers = self.segments.iter().take_while(|segment| *segment == "super").count();
        if self.segments[0] == "crate" {
            self.segments.get(1).map(String::as_str)
        } else if supers < module.len() + self.nested {
            // Still inside its own top-level module, or no path of this crate.
            (supers > 0).then(|| module[0])
        } else {
            self.segments.get(supers).map(String::as_str)
        }
    }
}

fn paths(source: &str) -> Vec<Mention> {
    let tokens = tokens(source);
    let mut found = Vec::new();
    let mut open_modules = Vec::new();
    let (mut depth, mut at) = (0, 0);
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            "{" => {
                if at >= 2 && tokens[at - 2].text == "mod" {
                    open_modules.push(depth);
                }
                depth += 1;
            }
            "}" => {
                depth -= 1;
                if open_modules.last() == Some(&depth) {
                    open_modules.pop();
                }
            }
            _ if tokens[at].is_name() => {
                at = read_path(&tokens, at, &[], open_modules.len(), &mut found);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Reads the path, or the group of paths, at `at`. Returns where the reading goes on.
fn read_path(
    tokens: &[Token],
    mut at: usize,
    prefix: &[String],
    nested: usize,
    found: &mut Vec<Mention>,
) -> usize {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let line = tokens[at].line;
    let mut segments = prefix.to_vec();
    loop {
        if text(at) == "{" {
            at += 1;
            while at < tokens.len() && text(at) != "}" {
                let member = tokens[at].is_name() || matches!(text(at), "{" | "*");
                at = if member { read_path(tokens, at, &segments, nested, found) } else { at + 1 };
            }
            return at + 1;
        }
        if text(at) != "*" && !tokens.get(at).is_some_and(Token::is_name) {
            break; // The `<` of `Vec::<u8>`.
        }
        segments.push(text(at).to_owned());
        at += 1;
        if text(at) != "::" {
            break;
        }
        at += 1;
    }
    found.push(Mention { line, segments, nested });
    // The other name that a member of a group gets is no member.
    if !prefix.is_empty() && text(at) == "as" { at + 2 } else { at }
}

struct Token {
    line: usize,
    /// A name, a number, `::`, or one other character.
    text: String,
}

impl Token {
    fn is_name(&self) -> bool {
        self.text.starts_with(is_name_start)
    }
}

fn is_name_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn is_name_part(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// The tokens of the code. Comments, strings and characters leave none.
fn tokens(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let (length, is_code) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), false)
        } else if rest.starts_with("/*") {
            (block_comment(rest), false)
        } else if let Some(length) = literal(rest) {
            (length, false)
        } else if is_name_part(first) {
            let after_mark = if rest.starts_with("r#") { 2 } else { 0 };
            let name = &rest[after_mark..];
            (after_mark + name.find(|c| !is_name_part(c)).unwrap_or(name.len()), true)
        } else if rest.starts_with("::") {
            (2, true)
        } else {
            (first.len_utf8(), !first.is_whitespace())
        };
        let (text, after) = rest.split_at(length);
        if is_code {
            let text = text.strip_prefix("r#").unwrap_or(text).to_owned();
            tokens.push(Token { line, text });
        }
        line += text.matches('\n').count();
        rest = after;
    }
    tokens
}

/// The length of the block comment that `text` starts with. They nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// The length of the string, character or lifetime that `text` starts with, if it starts with one.
fn literal(text: &str) -> Option<usize> {
    let after_prefix = text.trim_start_matches(['b', 'c', 'r']);
    let prefix = &text[..text.len() - after_prefix.len()];
    let hashes = after_prefix.len() - after_prefix.trim_start_matches('#').len();
    if prefix.len() > 2 {
        return None; // A name.
    }
    if prefix.ends_with('r') && after_prefix[hashes..].starts_with('"') {
        let start = prefix.len() + hashes + 1;
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(text[start..].find(&end).map_or(text.len(), |at| start + at + end.len()));
    }
    if after_prefix.starts_with('"') {
        return Some(prefix.len() + quoted(after_prefix, '"'));
    }
    if !after_prefix.starts_with('\'') || prefix.contains(['c', 'r']) {
        return None;
    }
    let mut inside = after_prefix[1..].chars();
    match (inside.next(), inside.next()) {
        // A lifetime or a label: `'a` with no quote after it.
        (Some(first), second) if is_name_start(first) && second != Some('\'') => {
            let name = &after_prefix[1..];
            Some(prefix.len() + 1 + name.find(|c| !is_name_part(c)).unwrap_or(name.len()))
        }
        _ => Some(prefix.len() + quoted(after_prefix, '\'')),
    }
}

/// The length of the quoted text that `text` starts with, with both quotes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

// ---- The alarm itself is tested ---------------------------------------------------------------

#[test]
fn an_import_of_a_higher_floor_is_reported_with_its_line_and_both_floors() {
    assert_eq!(
        wrong_imports("sync/real.rs", "//! Real.\nuse crate::compartment::Compartment;\n"),
        ["sync/real.rs:2: `sync` (floor 0) imports `compartment` (floor 2)"]
    );
    assert_eq!(
        wrong_imports(
            "bulkhead/mod.rs",
            "fn f() {\n    let r = crate::runtime::Runtime::new();\n}"
        ),
        ["bulkhead/mod.rs:2: `bulkhead` (floor 3) imports `runtime` (floor 4)"]
    );
    assert_eq!(
        wrong_imports("policy/limit/aimd.rs", "type R = Vec<crate::bulkhead::Bulkhead>;"),
        ["policy/limit/aimd.rs:1: `policy` (floor 2) imports `bulkhead` (floor 3)"]
    );
}

#[test]
fn a_group_reports_the_line_of_each_of_its_members() {
    let source = "use crate::{\n    bulkhead::{self, Bulkhead as B},\n    sync::*,\n    runtime as bulkhead,\n};";
    assert_eq!(
        wrong_imports("compartment/job.rs", source),
        [
            "compartment/job.rs:2: `compartment` (floor 2) imports `bulkhead` (floor 3)",
            "compartment/job.rs:4: `compartment` (floor 2) imports `runtime` (floor 4)",
        ]
    );
}

#[test]
fn a_super_that_leaves_the_module_counts_and_one_that_stays_does_not() {
    assert_eq!(
        wrong_imports("time/clock.rs", "use super::super::runtime::Runtime;"),
        ["time/clock.rs:1: `time` (floor 1) imports `runtime` (floor 4)"]
    );
    assert_eq!(
        wrong_imports("name.rs", "mod tests {\n    use super::super::bulkhead;\n}"),
        ["name.rs:2: `name` (floor 1) imports `bulkhead` (floor 3)"]
    );
    assert_none(&wrong_imports("time/clock.rs", "use super::deadline::Deadline;"));
    assert_none(&wrong_imports("time/clock.rs", "mod tests { use super::super::runtime; }"));
    assert_eq!(
        wrong_imports("time/clock.rs", "mod tests { fn f() {} }\nuse super::super::runtime;"),
        ["time/clock.rs:2: `time` (floor 1) imports `runtime` (floor 4)"]
    );
}

#[test]
fn neighbours_are_strangers_unless_they_are_family() {
    assert_eq!(
        wrong_imports("compartment/mod.rs", "use crate::policy::Limiter;"),
        ["compartment/mod.rs:1: `compartment` (floor 2) imports `policy` (floor 2)"]
    );
    assert_none(&wrong_imports("event.rs", "use crate::{error::Rejection, name::Name};"));
}

#[test]
fn imports_from_below_and_from_the_same_module_pass() {
    let source = "use crate::{bulkhead::Bulkhead, compartment, runtime::plan, sync::Arc};";
    assert_none(&wrong_imports("runtime/mod.rs", source));
    assert_none(&wrong_imports("lib.rs", "pub use crate::runtime::Runtime;"));
    assert_none(&wrong_imports("models/queue.rs", "use crate::compartment::Compartment;"));
}

#[test]
fn an_import_of_what_has_no_floor_is_reported() {
    assert_eq!(
        wrong_imports("runtime/mod.rs", "use crate::Bulkhead;\nuse crate::models::world;"),
        [
            "runtime/mod.rs:1: `runtime` (floor 4) imports `Bulkhead`, which FLOORS in \
             tests/floors.rs does not list",
            "runtime/mod.rs:2: `runtime` (floor 4) imports `models`, which only tests the others",
        ]
    );
}

#[test]
fn a_module_that_is_not_in_the_table_is_reported() {
    assert_eq!(
        unknown_module("attic/mod.rs").as_deref(),
        Some(
            "attic/mod.rs: `attic` has no floor; add it to FLOORS in tests/floors.rs, where it belongs"
        )
    );
    assert!(unknown_module("cellar.rs").is_some());
    for known in ["lib.rs", "models/queue.rs", "sync/mod.rs", "error.rs"] {
        assert_eq!(unknown_module(known), None);
    }
}

#[test]
fn std_sync_is_reported_however_it_is_written() {
    let report = |line, used| {
        format!(
            "bulkhead/call.rs:{line}: `bulkhead` uses `{used}`, which only `sync` (floor 0) may"
        )
    };
    for (source, line, used) in [
        ("use std::sync::Mutex;", 1, "std::sync"),
        ("use std::{\n    fmt,\n    sync::{Arc, atomic::AtomicU64},\n};", 3, "std::sync"),
        ("use {std::thread, crate::sync::Arc};", 1, "std::thread"),
        ("\nfn f() { ::std::thread::yield_now() }", 2, "std::thread"),
        ("static N: core::sync::atomic::AtomicU64 = N;", 1, "core::sync"),
        ("use parking_lot::Mutex;", 1, "parking_lot"),
        ("use parking_lot as locks;", 1, "parking_lot"),
        ("type M = loom::sync::Mutex<()>;", 1, "loom"),
        ("std::thread_local! {}", 1, "std::thread_local"),
        ("use std::*;", 1, "std::*"),
    ] {
        let expected = report(line, used);
        let found = past_the_door("bulkhead/call.rs", source);
        assert!(found.contains(&expected), "{source}\nwanted {expected}\nfound {found:#?}");
    }
    assert_eq!(
        past_the_door("lib.rs", "use std::sync::Arc;"),
        ["lib.rs:1: `lib.rs` uses `std::sync`, which only `sync` (floor 0) may"]
    );
}

#[test]
fn the_sync_floor_and_the_models_may_touch_std_sync() {
    assert_none(&past_the_door("sync/real.rs", "use parking_lot::Mutex; use std::thread;"));
    assert_none(&past_the_door("models/queue.rs", "use std::sync::Arc; use loom::thread;"));
    assert_none(&past_the_door(
        "bulkhead/call.rs",
        "use crate::sync::{Arc, thread}; use std::fmt;",
    ));
}

#[test]
fn comments_and_literals_are_not_code() {
    let source = r##"
//! use std::sync::Arc;
/// [`Runtime`](crate::runtime::Runtime)
/* /* use parking_lot::Mutex; */ use crate::runtime::Runtime; */
const A: &str = "use std::sync::Arc; \" crate::runtime::X";
const B: &str = r#"loom::model " crate::runtime::X"#;
const C: &[u8] = b"std::thread::spawn";
const D: [char; 3] = ['"', '\'', 'x'];
fn bring<'a>(brick: &'a str) -> &'a str { 'outer: loop { break 'outer brick } }
"##;
    assert_none(&wrong_imports("time/clock.rs", source));
    assert_none(&past_the_door("time/clock.rs", source));

    // And the code after each of them is code again, on the line where it stands.
    let source = format!("{source}use std::sync::Arc;");
    assert_eq!(
        past_the_door("time/clock.rs", &source),
        ["time/clock.rs:10: `time` uses `std::sync`, which only `sync` (floor 0) may"]
    );
}
