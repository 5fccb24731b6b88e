//! A throwaway PostgreSQL server: one for the test process, gone with it however it ends.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use watertight::postgres::Config;

/// The folder of the server's programs.
fn programs() -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::env::var_os("WATERTIGHT_PG_BIN").map(Into::into).into_iter().collect();
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    for parent in ["/usr/lib/postgresql", "/Applications/Postgres.app/Contents/Versions"] {
        let versions = std::fs::read_dir(parent).into_iter().flatten().flatten();
        let mut versions: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
        versions.sort();
        folders.extend(versions.into_iter().rev());
    }
    for (parent, prefix) in
        [("/usr", "pgsql-"), ("/opt/homebrew/opt", "postgresql"), ("/usr/local/opt", "postgresql")]
    {
        let found = std::fs::read_dir(parent).into_iter().flatten().flatten();
        let found = found.filter(|one| one.file_name().to_string_lossy().starts_with(prefix));
        folders.extend(found.map(|one| one.path().join("bin")));
    }
    folders.into_iter().find(|bin| bin.join("postgres").exists() && bin.join("initdb").exists())
}

/// The shell that holds the server: it stops it when its standard input ends, and that ends with us.
const HOLD: &str = r#"
trap '' INT TERM
"$1/initdb" -D "$2/data" -U postgres -A trust --no-sync --no-instructions -E UTF8 --locale=C >"$2/log" 2>&1 || exit 1
"$1/postgres" -D "$2/data" -h 127.0.0.1 -p "$3" -k "$2" -F -c shared_buffers=16MB \
    -c max_connections=300 -c autovacuum=off >>"$2/log" 2>&1 &
read -r _
kill -QUIT $!
wait $!
rm -rf "$2"
"#;

struct Server {
    port: u16,
    /// Keeps the shell's input open.
    _shell: Child,
}

fn start(programs: &Path) -> Server {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let folder = std::env::temp_dir().join(format!("watertight-pg-{}-{port}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", HOLD, "sh"]).arg(programs).arg(&folder).arg(port.to_string());
    shell.current_dir(&folder).stdin(Stdio::piped());
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| {
            use std::os::unix::fs::MetadataExt;
            own.uid() == 0
        });
        if is_root {
            // The server refuses to run as root.
            std::os::unix::fs::chown(&folder, Some(65_534), Some(65_534)).unwrap();
            shell.uid(65_534).gid(65_534);
        }
    }
    let shell = shell.spawn().unwrap();
    let start = Instant::now();
    let ready = || {
        let file = std::fs::read_to_string(folder.join("data/postmaster.pid"));
        file.is_ok_and(|text| text.lines().nth(7).is_some_and(|line| line.trim() == "ready"))
    };
    // As root the file can be read; as its owner too.
    while !ready() {
        let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(start.elapsed() < Duration::from_secs(60), "no PostgreSQL server: {}", log());
        std::thread::sleep(Duration::from_millis(5));
    }
    Server { port, _shell: shell }
}

/// How to reach the server, for a test. `None`, with a loud word, where there are no programs for one;
/// in CI that fails.
pub(crate) fn postgres() -> Option<Config> {
    let found = find();
    if found.is_none() {
        let missing = "**** there are no PostgreSQL server programs; `tests/run` installs them";
        assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty()), "{missing}");
        eprintln!("{missing}, and this test is left out");
    }
    found
}

/// How to reach the server, which the first call starts. `None` where there are no programs for one.
pub(crate) fn find() -> Option<Config> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    let server = SERVER.get_or_init(|| programs().map(|programs| start(&programs)));
    let port = server.as_ref()?.port;
    let mut config = Config::new();
    config.host("127.0.0.1").port(port).user("postgres").dbname("postgres");
    Some(config)
}
