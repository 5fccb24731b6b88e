//! Servers that hang in every way there is, and come back; and what a client must stand.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};
use watertight::{Bulkhead, Deadline};

use crate::support::{Gate, WATCHDOG, eventually, within};

/// What a call has until its deadline.
pub(crate) const LIMIT: Duration = Duration::from_millis(300);

/// How much later than the deadline caller and thread may be free on a busy machine.
const LATENESS: Duration = Duration::from_secs(2);

/// What becomes of the answers on their way from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// They arrive.
    None,
    /// Not a byte arrives.
    Silence,
    /// One byte a second arrives.
    Trickle,
    /// Half of what there is arrives, then a reset.
    Reset,
    /// Half of what there is arrives, then the end of the stream; requests are still taken.
    HalfClose,
}

pub(crate) const FAULTS: [Fault; 4] =
    [Fault::Silence, Fault::Trickle, Fault::Reset, Fault::HalfClose];

/// Stands between client and server.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    fault: Arc<Mutex<Fault>>,
}

impl Proxy {
    pub(crate) fn new(server: SocketAddr) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), server)
    }

    fn on(listener: TcpListener, server: SocketAddr) -> Self {
        let address = listener.local_addr().unwrap();
        let fault = Arc::new(Mutex::new(Fault::None));
        let shared = Arc::clone(&fault);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(server) else { continue };
                let fault = Arc::clone(&shared);
                thread::spawn(move || pass_on(&client, &server, &fault));
            }
        });
        Self { address, fault }
    }

    pub(crate) fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }
}

/// Both ways, until one of them ends.
fn pass_on(client: &TcpStream, server: &TcpStream, fault: &Mutex<Fault>) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = std::io::copy(&mut &*client, &mut &*server);
            over.store(true, Ordering::SeqCst);
            let _ = server.shutdown(Shutdown::Both);
        });
        let _ = answer(client, server, fault, &over);
        over.store(true, Ordering::SeqCst);
        let _ = server.shutdown(Shutdown::Both);
        // Says nothing to the client, but ends the copying above.
        let _ = client.shutdown(Shutdown::Read);
    });
}

fn answer(
    mut client: &TcpStream,
    mut server: &TcpStream,
    fault: &Mutex<Fault>,
    over: &AtomicBool,
) -> std::io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        let n = server.read(&mut bytes)?;
        if n == 0 {
            return Ok(());
        }
        let mut rest = &bytes[..n];
        let mut next = Instant::now();
        while !rest.is_empty() {
            if over.load(Ordering::SeqCst) {
                return Ok(());
            }
            let now = *fault.lock().unwrap();
            match now {
                Fault::None => {
                    client.write_all(rest)?;
                    rest = &[];
                }
                Fault::Silence => thread::sleep(Duration::from_millis(1)),
                Fault::Trickle if Instant::now() < next => {
                    thread::sleep(Duration::from_millis(1));
                }
                Fault::Trickle => {
                    client.write_all(&rest[..1])?;
                    rest = &rest[1..];
                    next += Duration::from_secs(1);
                }
                Fault::Reset | Fault::HalfClose => {
                    client.write_all(&rest[..rest.len() / 2])?;
                    if now == Fault::Reset {
                        SockRef::from(client).set_linger(Some(Duration::ZERO))?;
                        return Ok(());
                    }
                    client.shutdown(Shutdown::Write)?;
                    while !over.load(Ordering::SeqCst) {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            }
        }
    }
}

/// A listener whose backlog is full: the system answers nobody who wants to connect.
pub(crate) struct FullBacklog {
    listener: Socket,
    pub(crate) address: SocketAddr,
    _fillers: Vec<Socket>,
}

impl FullBacklog {
    pub(crate) fn new() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let filler = |_| {
            let filler = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            let _ = filler.connect_timeout(&address, Duration::from_millis(100));
            filler
        };
        let fillers = (0..3).map(filler).collect();
        Self { listener, address: address.as_socket().unwrap(), _fillers: fillers }
    }

    /// Takes whoever waits, and everybody from now on, to `server`.
    pub(crate) fn relieve(self, server: SocketAddr) -> Proxy {
        self.listener.listen(128).unwrap();
        Proxy::on(self.listener.into(), server)
    }
}

/// Makes a call that cannot go well: its caller must have an error by its deadline, and right after that
/// all threads must be there, which is measured as work that they do.
pub(crate) fn endure<T: Debug + Send + 'static, E: Send + 'static>(
    what: &str,
    bulkhead: &Bulkhead,
    call: impl FnOnce(Deadline) -> Result<T, E> + Send + 'static,
) -> E {
    let start = Instant::now();
    let answer = within(what, move || call(Deadline::after(LIMIT)));
    let caller = start.elapsed();
    let error = match answer {
        Err(error) => error,
        Ok(value) => panic!("{what}: {value:?}"),
    };
    let (gate, threads) = (Gate::new(), bulkhead.snapshot().threads);
    let held: Vec<_> = (0..threads)
        .map(|_| {
            let gate = gate.clone();
            bulkhead.submit(move |_| gate.pass()).unwrap()
        })
        .collect();
    gate.wait_for(threads);
    let free = start.elapsed();
    gate.open();
    for job in held {
        job.join().unwrap();
    }
    println!(
        "{what}: the caller had its error after {caller:.1?}, all threads were free after {free:.1?}"
    );
    assert!(caller < LIMIT + LATENESS, "{what}: the caller had its error after {caller:?}");
    assert!(free < LIMIT + LATENESS, "{what}: the threads were free after {free:?}");
    error
}

/// The threads and the open files of this process. It has them for itself only in a child process.
#[cfg(target_os = "linux")]
pub(crate) fn holdings() -> (usize, usize) {
    let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    (count("/proc/self/task"), count("/proc/self/fd"))
}

/// Waits until this process holds no more than it did.
#[cfg(target_os = "linux")]
pub(crate) fn nothing_is_left(what: &str, before: (usize, usize)) {
    let start = Instant::now();
    loop {
        let now = holdings();
        if now.0 <= before.0 && now.1 <= before.1 {
            return;
        }
        let names = || {
            let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
            let names = tasks.map(|task| std::fs::read_to_string(task.path().join("comm")));
            names.map(Result::unwrap_or_default).collect::<String>()
        };
        let left = "threads and files are left of";
        assert!(start.elapsed() < WATCHDOG, "{what}: {now:?} {left} {before:?}: {}", names());
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sends a signal to processes, as far as they are still there: a server's come and go.
#[cfg(unix)]
pub(crate) fn signal(name: &str, processes: &[u32]) {
    let send = |signal: &str, process: u32| {
        let mut kill = std::process::Command::new("kill");
        kill.args([signal, &process.to_string()]).stderr(std::process::Stdio::null());
        kill.status().unwrap().success()
    };
    for process in processes {
        assert!(send(name, *process) || !send("-0", *process), "kill {name} {process}");
    }
}

/// Tries until it goes well.
pub(crate) fn recovers<T, E: Debug>(what: &str, call: impl Fn() -> Result<T, E>) {
    eventually(&format!("{what}: the next call goes well"), || call().is_ok());
}
