//! [`Scratch`]: a copy of the crate that bugs are put into, one at a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::copy_tree;
use crate::table::{Mutant, Suite};

/// Far more than the slowest model takes. One that reaches it is no verdict: it has neither passed
/// nor failed.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Scratch {
    folder: PathBuf,
}

pub(crate) enum Verdict {
    DoesNotBuild(String),
    Ran { red: Vec<String>, undecided: Vec<String> },
}

impl Scratch {
    /// The copy of hand number `hand`. Its build folder is kept from run to run.
    pub(crate) fn new(root: &Path, hand: usize) -> Self {
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root.join("target"), |dir| root.join(dir));
        let folder = target.join(format!("mutants-{hand}"));
        for part in ["src", "docs", ".cargo", "benches", "tests", "examples"] {
            let _ = fs::remove_dir_all(folder.join(part));
            copy_tree(&root.join(part), &folder.join(part));
        }
        for file in ["Cargo.toml", "Cargo.lock", "README.md"] {
            fs::copy(root.join(file), folder.join(file)).expect("the sources can be copied");
        }
        Self { folder }
    }

    pub(crate) fn red_without_a_bug(&self, suite: Suite) -> Vec<String> {
        match self.run(suite) {
            Verdict::DoesNotBuild(why) => vec![format!("the crate itself does not build:\n{why}")],
            Verdict::Ran { red, undecided } => red
                .iter()
                .chain(&undecided)
                .map(|model| format!("`{model}` is red without any bug"))
                .collect(),
        }
    }

    pub(crate) fn try_out(&self, mutant: &Mutant) -> Verdict {
        let mut originals = Vec::new();
        for edit in mutant.edits {
            let path = self.folder.join(edit.file);
            let source = fs::read_to_string(&path).expect("the file was checked to be there");
            fs::write(&path, source.replacen(edit.old, edit.new, 1)).expect("it can be written");
            originals.push((path, source));
        }
        let verdict = self.run(mutant.suite);
        // Backwards, since two edits may be of one file.
        for (path, source) in originals.into_iter().rev() {
            fs::write(path, source).expect("it can be written");
        }
        verdict
    }

    fn run(&self, suite: Suite) -> Verdict {
        let program = match self.build(suite) {
            Ok(program) => program,
            Err(why) => return Verdict::DoesNotBuild(why),
        };
        let listed = Command::new(&program).arg("--list").output().expect("it can be run");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        let (mut red, mut undecided) = (Vec::new(), Vec::new());
        for name in names {
            match self.passes(&program, name) {
                Some(true) => {}
                Some(false) => red.push(name.trim_start_matches("models::").to_owned()),
                None => undecided.push(name.trim_start_matches("models::").to_owned()),
            }
        }
        Verdict::Ran { red, undecided }
    }

    /// Builds quickly rather than for speed, except for loom itself.
    fn build(&self, suite: Suite) -> Result<PathBuf, String> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .current_dir(&self.folder)
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS");
        if suite == Suite::Models {
            cargo.args(["--config", ".cargo/loom.toml"]);
        }
        cargo
            .args(["--config", "profile.dev.package.'*'.opt-level=3"])
            .args(["--config", "profile.dev.opt-level=1", "--config", "profile.dev.debug=false"])
            .args(["test", "--locked", "--lib", "--no-run", "--message-format=json"])
            .env("CARGO_TARGET_DIR", self.folder.join(format!("target-{suite:?}")));
        let output = cargo.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let messages = String::from_utf8_lossy(&output.stdout).into_owned();
        messages
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
            .next_back()
            .ok_or_else(|| "cargo built no program".into())
    }

    /// Runs one test in a process of its own, since a failing model often aborts. `None`: out of time.
    fn passes(&self, program: &Path, name: &str) -> Option<bool> {
        let log = self.folder.join("log");
        let file = fs::File::create(&log).expect("the log can be written");
        let mut child = Command::new(program)
            .args(["--exact", name, "--nocapture"])
            .current_dir(&self.folder)
            .env("LOOM_MAX_PREEMPTIONS", "3")
            .env("RUST_BACKTRACE", "0")
            .env_remove("LOOM_MAX_PERMUTATIONS")
            .env_remove("LOOM_MAX_DURATION")
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a second handle to the log"))
            .stderr(file)
            .spawn()
            .expect("it can be run");
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("it is our child") {
                break status;
            }
            if start.elapsed() > LIMIT {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        if status.success() {
            return Some(true);
        }
        let said = fs::read(&log).map(|said| String::from_utf8_lossy(&said).into_owned());
        // A bug may lessen the interleavings below a model's floor. That is the floor's business,
        // and no proof that the model would notice the bug.
        Some(said.unwrap_or_default().contains("interleavings where at least"))
    }
}
