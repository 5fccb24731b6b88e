//! Seeded bugs: each is put into a scratch copy of the crate, and the loom models must go red.
//!
//! ```text
//! cargo loom-mutants                  every bug of the table against every model
//! cargo loom-mutants NAME..           those whose name contains one of the words
//! cargo loom-mutants --changed        those in files that the present change touches
//! cargo loom-mutants --write-docs     brings the table in docs/concurrency.md up to date
//! ```
//!
//! A bug that no model notices fails the run; so does one that no longer applies, and one that a
//! model which the table names does not notice any more. Under plain `cargo test` only what is quick
//! is checked: that every bug still applies, and that the table in the docs is this one.
#![cfg(not(any(watertight_loom, watertight_shuttle)))]

mod scratch;
mod table;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::time::Instant;

use scratch::{Scratch, Verdict};
use table::{MUTANTS, Mutant, Suite};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut complaints = stale_entries();
    match args.split_first() {
        Some((first, rest)) if first == "run" => match rest {
            [flag] if flag == "--write-docs" => write_docs(),
            _ => {
                let chosen = choose(rest);
                if complaints.is_empty() {
                    complaints.extend(run(&chosen));
                }
                complaints.extend(unnamed());
                complaints.extend(docs_differ());
            }
        },
        // Whatever else the test runner passes.
        _ => {
            complaints.extend(unnamed());
            complaints.extend(docs_differ());
        }
    }
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    println!("mutants: {} in the table, {} complaints", MUTANTS.len(), complaints.len());
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

// ---- What is quick to check --------------------------------------------------------------------

fn stale_entries() -> Vec<String> {
    let mut complaints = Vec::new();
    let mut names = BTreeSet::new();
    for mutant in MUTANTS {
        if !names.insert(mutant.name) {
            complaints.push(format!("two bugs are called `{}`", mutant.name));
        }
        for edit in mutant.edits {
            let source = std::fs::read_to_string(root().join(edit.file)).unwrap_or_default();
            match source.matches(edit.old).count() {
                1 => {}
                n => complaints.push(format!(
                    "`{}` no longer applies: its old text stands {n} times in {}",
                    mutant.name, edit.file
                )),
            }
        }
    }
    complaints
}

/// Entries without a word on what catches them. A run says what to write there.
fn unnamed() -> Vec<String> {
    let silent = MUTANTS.iter().filter(|mutant| mutant.caught_by.is_empty());
    silent.map(|mutant| format!("`{}` names nothing that catches it", mutant.name)).collect()
}

const BEGIN: &str = "<!-- the table of seeded bugs: `cargo loom-mutants --write-docs` -->\n";
const END: &str = "<!-- end of the table -->";

fn docs_path() -> PathBuf {
    root().join("docs/concurrency.md")
}

fn docs_table() -> String {
    let mut text = String::from("\n| bug | in | caught by |\n|---|---|---|\n");
    for mutant in MUTANTS {
        let files: BTreeSet<&str> =
            mutant.edits.iter().map(|edit| edit.file.trim_start_matches("src/")).collect();
        let files = files.into_iter().collect::<Vec<_>>().join(", ");
        let caught: Vec<_> = mutant.caught_by.iter().map(|model| format!("`{model}`")).collect();
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {} | {files} | {} |", mutant.name, caught.join(", "));
    }
    text + "\n"
}

/// The docs before, in and after the table.
fn split_docs(docs: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = docs.split_once(BEGIN)?;
    let (table, after) = rest.split_once(END)?;
    Some((before, table, after))
}

fn docs_differ() -> Option<String> {
    let docs = std::fs::read_to_string(docs_path()).unwrap_or_default();
    match split_docs(&docs) {
        Some((_, table, _)) if table == docs_table() => None,
        _ => Some(
            "the table in docs/concurrency.md is out of date: `cargo loom-mutants --write-docs`"
                .into(),
        ),
    }
}

fn write_docs() {
    let docs = std::fs::read_to_string(docs_path()).expect("docs/concurrency.md is there");
    let (before, _, after) = split_docs(&docs).expect("it marks where the table stands");
    let docs = format!("{before}{BEGIN}{}{END}{after}", docs_table());
    std::fs::write(docs_path(), docs).expect("docs/concurrency.md can be written");
}

// ---- The run -----------------------------------------------------------------------------------

fn choose(words: &[String]) -> Vec<&'static Mutant> {
    if words.iter().any(|word| word == "--changed") {
        let changed = changed_files();
        let touches = |mutant: &&Mutant| {
            mutant.edits.iter().any(|edit| changed.iter().any(|file| file == edit.file))
        };
        return MUTANTS.iter().filter(touches).collect();
    }
    let wanted = |mutant: &&Mutant| {
        words.is_empty() || words.iter().any(|word| mutant.name.contains(word.as_str()))
    };
    MUTANTS.iter().filter(wanted).collect()
}

/// What has been edited and not committed; in a clean tree, what the last commit changed.
fn changed_files() -> Vec<String> {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(root()).output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut changed = git(&["diff", "--name-only", "HEAD"]);
    changed.extend(git(&["ls-files", "--others", "--exclude-standard"]));
    if changed.is_empty() {
        changed = git(&["diff", "--name-only", "HEAD~1"]);
    }
    changed
}

fn run(chosen: &[&'static Mutant]) -> Vec<String> {
    if chosen.is_empty() {
        println!("no seeded bug is concerned");
        return Vec::new();
    }
    let hands = std::thread::available_parallelism().map_or(1, usize::from).min(chosen.len());
    let next = Mutex::new(chosen.iter());
    let complaints = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for hand in 0..hands {
            let (next, complaints) = (&next, &complaints);
            scope.spawn(move || {
                let scratch = Scratch::new(&root(), hand);
                for suite in [Suite::Models, Suite::Units] {
                    // Unharmed, everything is green: so a red model is the bug's doing.
                    let wanted = chosen.iter().any(|mutant| mutant.suite == suite);
                    if hand == 0 && wanted {
                        let red = scratch.red_without_a_bug(suite);
                        complaints.lock().unwrap().extend(red);
                    }
                }
                loop {
                    let Some(mutant) = next.lock().unwrap().next() else { return };
                    let found = judge(&scratch, mutant);
                    complaints.lock().unwrap().extend(found);
                }
            });
        }
    });
    complaints.into_inner().unwrap()
}

/// Tries one bug and prints its line.
fn judge(scratch: &Scratch, mutant: &Mutant) -> Vec<String> {
    let start = Instant::now();
    let verdict = scratch.try_out(mutant);
    let took = start.elapsed().as_secs_f64();
    let name = mutant.name;
    match verdict {
        Verdict::DoesNotBuild(why) => {
            println!("NO BUILD  {took:5.1} s  {name}");
            vec![format!("`{name}` does not build:\n{why}")]
        }
        Verdict::Ran { red, undecided } => {
            let word = if red.is_empty() { "SURVIVED" } else { "caught" };
            println!("{word:8}  {took:5.1} s  {name}: {}", red.join(" "));
            if !undecided.is_empty() {
                println!(
                    "          out of time, so neither red nor green: {}",
                    undecided.join(" ")
                );
            }
            let asleep: Vec<_> =
                mutant.caught_by.iter().filter(|model| !red.iter().any(|r| r == *model)).collect();
            let mut complaints = Vec::new();
            if red.is_empty() {
                complaints.push(format!("`{name}` is noticed by nothing"));
            } else if !asleep.is_empty() {
                complaints.push(format!("`{name}` is not noticed any more by {asleep:?}"));
            }
            complaints
        }
    }
}

/// Copies what the crate is built from.
fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("the scratch folder can be made");
    for entry in std::fs::read_dir(from).expect("the sources can be read") {
        let entry = entry.expect("the sources can be read");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("the sources can be copied");
        }
    }
}
