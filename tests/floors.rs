//! The shape of the code itself: imports point down, and only one floor touches the system's threads
//! and locks.
#![cfg(not(watertight_loom))]

use std::fs;
use std::path::{Path, PathBuf};

/// Which floor each top-level module is on. Neighbours on a floor are strangers, except on floor 1,
/// which is one family: an event mentions an outcome, an error mentions a name.
const FLOORS: [(&str, u32); 13] = [
    ("sync", 0),
    ("contain", 1),
    ("error", 1),
    ("event", 1),
    ("name", 1),
    ("time", 1),
    ("vitals", 1),
    ("compartment", 2),
    ("policy", 2),
    ("bulkhead", 3),
    ("runtime", 4),
    ("integrations", 5),
    ("models", 6),
];

const FAMILY: u32 = 1;

/// What only the lowest floor may name.
const SYSTEM: [&str; 5] = ["std::sync", "core::sync", "std::thread", "parking_lot::", "loom::"];

fn floor(module: &str) -> Option<u32> {
    FLOORS.iter().find(|(name, _)| *name == module).map(|(_, floor)| *floor)
}

/// What is wrong with the text of `path`, which is relative to `src`.
fn violations(path: &str, text: &str) -> Vec<String> {
    let module = path.split('/').next().unwrap_or(path).trim_end_matches(".rs");
    if module == "lib" {
        return Vec::new();
    }
    let Some(mine) = floor(module) else {
        return vec![format!("{path}: `{module}` is on no floor; add it to FLOORS")];
    };
    let mut found = Vec::new();
    for (number, at, name) in imports(text) {
        // A name at the root that starts with a capital is a public type, by its public path.
        let Some(theirs) = floor(&name) else {
            if name.starts_with(char::is_lowercase) {
                found.push(format!("{path}:{number}: `{name}` is on no floor; add it to FLOORS"));
            }
            continue;
        };
        let family = mine == FAMILY && theirs == FAMILY;
        if name != module && theirs >= mine && !family {
            found.push(format!(
                "{path}:{number}: `{module}` (floor {mine}) imports `{name}` (floor {theirs})"
            ));
        }
        let _ = at;
    }
    if module != "sync" && module != "models" {
        for (number, line) in code_lines(text) {
            let grouped =
                line.contains("std::{") && (line.contains("sync") || line.contains("thread"));
            let named = SYSTEM.iter().any(|system| {
                line.match_indices(system).any(|(at, _)| {
                    // `thread_parking_lot::` would be another name.
                    !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
                })
            });
            if grouped || named {
                found.push(format!(
                    "{path}:{number}: `{module}` (floor {mine}) names what only `sync` (floor 0) \
                     may: {}",
                    line.trim()
                ));
            }
        }
    }
    found
}

/// The lines of code, numbered from 1, without their comments.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line.split("//").next().unwrap_or("")))
}

/// Every module that is reached by `crate::`, also in a group: line, column, name.
fn imports(text: &str) -> Vec<(usize, usize, String)> {
    let mut found = Vec::new();
    for (number, line) in code_lines(text) {
        for (at, _) in line.match_indices("crate::") {
            if line[..at].ends_with('$') {
                continue;
            }
            let rest = &line[at + "crate::".len()..];
            let group =
                rest.strip_prefix('{').map(|group| group.split('}').next().unwrap_or(group));
            for part in group.unwrap_or(rest).split(if group.is_some() { ',' } else { '\0' }) {
                let part = part.trim_start();
                let end =
                    part.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(part.len());
                if end > 0 {
                    found.push((number, at, part[..end].to_owned()));
                }
            }
        }
    }
    found
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("src can be read") {
        let path = entry.expect("src can be read").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn imports_point_down_and_only_the_sync_floor_touches_the_system() {
    let src = root().join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    assert!(files.len() > 20, "only {} source files were found", files.len());
    let mut found = Vec::new();
    for file in files {
        let relative =
            file.strip_prefix(&src).expect("it is inside").to_string_lossy().into_owned();
        found.extend(violations(&relative, &fs::read_to_string(&file).expect("it can be read")));
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn the_scanner_sees_what_it_is_there_for() {
    let one = |path: &str, text: &str| {
        let found = violations(path, text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        found[0].clone()
    };
    assert_eq!(
        one("sync/real.rs", "\nuse crate::compartment::Job;"),
        "sync/real.rs:2: `sync` (floor 0) imports `compartment` (floor 2)",
    );
    assert_eq!(
        one("compartment/mod.rs", "use crate::{error::Rejection, policy::Limit};"),
        "compartment/mod.rs:1: `compartment` (floor 2) imports `policy` (floor 2)",
    );
    assert!(one("bulkhead/mod.rs", "fn f() { crate::runtime::g() }").contains("(floor 4)"));
    assert!(one("bulkhead/mod.rs", "use std::sync::Mutex;").contains("only `sync`"));
    assert!(one("bulkhead/mod.rs", "use std::{fmt, sync::Mutex};").contains("only `sync`"));
    assert!(one("runtime/mod.rs", "let t = std::thread::spawn(f);").contains("only `sync`"));
    assert!(one("error/mod.rs", "use parking_lot::Mutex;").contains("only `sync`"));
    assert!(one("time/mod.rs", "loom::model(f);").contains("only `sync`"));
    assert!(one("cellar/mod.rs", "").contains("add it to FLOORS"));
    for fine in [
        "use crate::sync::Mutex; // not std::sync::Mutex",
        "use crate::error::Rejection;",
        "//! crate::runtime is above",
        "use crate::Context;",
    ] {
        assert!(violations("compartment/mod.rs", fine).is_empty(), "{fine}");
    }
    assert!(violations("error/mod.rs", "use crate::vitals::Vitals;").is_empty());
}

#[test]
fn the_changelog_has_the_version() {
    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).expect("it is there");
    let heading = format!("## [{}]", env!("CARGO_PKG_VERSION"));
    assert!(changelog.contains(&heading), "CHANGELOG.md has no heading {heading}");
}

#[test]
fn the_top_level_holds_what_it_should_and_nothing_else() {
    const HOLDS: [&str; 11] = [
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
    let mut there: Vec<String> = fs::read_dir(root())
        .expect("the root can be read")
        .map(|entry| {
            entry.expect("the root can be read").file_name().to_string_lossy().into_owned()
        })
        .filter(|name| !name.starts_with('.') && name != "target")
        .collect();
    there.sort();
    assert_eq!(there, HOLDS);
}
