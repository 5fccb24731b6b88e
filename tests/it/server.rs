//! A throwaway PostgreSQL server: gone with the process that started it, however that ends.
//!
//! It needs the server's programs, and nothing but the standard library; examples include this file.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
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

/// What to say where there are no programs.
pub(crate) const MISSING: &str = "there are no PostgreSQL server programs; install them \
     (`apt-get install postgresql`, `dnf install postgresql-server`, `brew install postgresql@17`), \
     or say where they are with the variable WATERTIGHT_PG_BIN";

/// The shell that holds the server: it stops it when its standard input ends, and that ends with us.
const HOLD: &str = r#"
trap '' INT TERM
bin=$1 folder=$2 port=$3
shift 3
"$bin/initdb" -D "$folder/data" -U postgres -A trust --no-sync --no-instructions -E UTF8 --locale=C >"$folder/log" 2>&1 || exit 1
"$bin/postgres" -D "$folder/data" -h 127.0.0.1 -p "$port" -k "$folder" -F -c shared_buffers=16MB \
    -c max_connections=60 -c autovacuum=off "$@" >>"$folder/log" 2>&1 &
read -r _
kill -CONT $!
kill -QUIT $!
wait $!
rm -rf "$folder"
"#;

/// Stopped when it is dropped, and with the process.
pub(crate) struct Server {
    port: u16,
    folder: PathBuf,
    shell: Child,
    /// The shell's input, which keeps it and the server.
    hold: Option<ChildStdin>,
}

impl Server {
    /// Starts one with more settings, such as `max_connections=5`, and with files in its folder, which
    /// is the settings' `{folder}`. `None` where there are no programs for one.
    pub(crate) fn start(settings: &[&str], files: &[(&str, &str)]) -> Option<Self> {
        programs().map(|programs| start(&programs, settings, files))
    }

    /// How to reach it.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.port).user("postgres").dbname("postgres");
        config
    }

    /// The process that accepts connections.
    #[allow(dead_code, reason = "not everybody who includes this file stops the server")]
    pub(crate) fn postmaster(&self) -> u32 {
        let file = std::fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap();
        file.lines().next().unwrap().trim().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.hold.take());
        let _ = self.shell.wait();
    }
}

fn start(programs: &Path, settings: &[&str], files: &[(&str, &str)]) -> Server {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let folder = std::env::temp_dir().join(format!("watertight-pg-{}-{port}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let files: Vec<_> = files.iter().map(|(name, text)| (folder.join(name), text)).collect();
    for (path, text) in &files {
        std::fs::write(path, text).unwrap();
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", HOLD, "sh"]).arg(programs).arg(&folder).arg(port.to_string());
    for setting in settings {
        shell.arg("-c").arg(setting.replace("{folder}", &folder.to_string_lossy()));
    }
    shell.current_dir(&folder).stdin(Stdio::piped());
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
        use std::os::unix::process::CommandExt;
        for (path, _) in &files {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        if std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
            // The server refuses to run as root.
            for path in files.iter().map(|(path, _)| path).chain([&folder]) {
                chown(path, Some(65_534), Some(65_534)).unwrap();
            }
            shell.uid(65_534).gid(65_534);
        }
    }
    let mut shell = shell.spawn().unwrap();
    let hold = shell.stdin.take();
    let server = Server { port, folder, shell, hold };
    let start = Instant::now();
    let ready = || {
        let file = std::fs::read_to_string(server.folder.join("data/postmaster.pid"));
        file.is_ok_and(|text| text.lines().nth(7).is_some_and(|line| line.trim() == "ready"))
    };
    // As root the file can be read; as its owner too.
    while !ready() {
        let log = || std::fs::read_to_string(server.folder.join("log")).unwrap_or_default();
        assert!(start.elapsed() < Duration::from_secs(60), "no PostgreSQL server: {}", log());
        std::thread::sleep(Duration::from_millis(5));
    }
    server
}
