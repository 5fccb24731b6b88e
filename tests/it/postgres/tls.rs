//! PostgreSQL through TLS: a real server that demands it, and servers that fall silent on the way to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;
use watertight::postgres::client::config::{SslMode, SslNegotiation};
use watertight::postgres::{Config, Database, Error};
use watertight::r2d2::ConnectionErrorKind;
use watertight::{Bulkhead, CallError, Deadline, Runtime};

use super::{backend, build_with, soon, start, throwaway};
use crate::server::Server;
use crate::support::{Gate, WATCHDOG, eventually, within};

/// A server that refuses whoever comes without TLS, and a connector that trusts its certificate.
struct Encrypted {
    server: Server,
    connector: MakeRustlsConnect,
}

const WHO: &str = "hostssl all all 127.0.0.1/32 trust\nhostnossl all all 127.0.0.1/32 reject\n";

fn encrypted() -> Option<&'static Encrypted> {
    static SERVER: OnceLock<Option<Encrypted>> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
        let files = [("server.crt", &*certificate), ("server.key", &*key), ("who", WHO)];
        let settings = [
            "ssl=on",
            "ssl_cert_file={folder}/server.crt",
            "ssl_key_file={folder}/server.key",
            "hba_file={folder}/who",
        ];
        let server = start(&settings, &files)?;
        Some(Encrypted { server, connector: trusting(&[own.cert.der().clone()]) })
    });
    server.as_ref()
}

fn trusting(certificates: &[CertificateDer<'static>]) -> MakeRustlsConnect {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate.clone()).unwrap();
    }
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions();
    MakeRustlsConnect::new(config.unwrap().with_root_certificates(roots).with_no_client_auth())
}

/// Whether the server says that the connection is encrypted.
fn is_encrypted(database: &Database) -> bool {
    let asked = database.call(|client, _| -> Result<bool, Error> {
        let query = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
        Ok(client.query_one(query, &[])?.get(0))
    });
    asked.unwrap().unwrap()
}

/// An error and what it was caused by, in one line.
fn in_full(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn refusal(database: &Database) -> String {
    let error = database.call(|_, _| ()).unwrap_err();
    let CallError::Failed(error) = error else { panic!("{error:?}") };
    assert_eq!(error.kind(), ConnectionErrorKind::CannotConnect);
    in_full(&error)
}

#[test]
fn a_connection_is_encrypted_where_sslmode_requires_or_prefers_it() {
    let Some(Encrypted { server, connector }) = encrypted() else { return };
    for mode in [SslMode::Require, SslMode::Prefer] {
        let mut config = server.config();
        config.ssl_mode(mode);
        let builder = Database::builder(config).tls(connector.clone());
        let (runtime, _, database) = build_with(2, builder);
        assert!(is_encrypted(&database), "{mode:?}");
        assert!(runtime.shutdown(WATCHDOG).unwrap().is_clean(), "{mode:?}");
    }
}

#[test]
fn sslmode_disable_stays_plain_and_the_server_s_word_on_it_is_passed_on() {
    let Some(Encrypted { server, connector }) = encrypted() else { return };
    let mut config = server.config();
    config.ssl_mode(SslMode::Disable);
    let (_runtime, _, database) = build_with(1, Database::builder(config).tls(connector.clone()));
    let said = refusal(&database);
    assert!(said.contains("no encryption") || said.contains("SSL off"), "{said}");
}

#[test]
fn a_server_without_tls_is_an_error_under_require_and_plain_under_prefer() {
    let Some(mut config) = throwaway() else { return };
    let connector = trusting(&[]);
    let preferring = Database::builder(config.clone()).tls(connector.clone());
    let (_runtime, _, database) = build_with(1, preferring);
    assert!(!is_encrypted(&database));
    config.ssl_mode(SslMode::Require);
    let (_runtime, _, database) = build_with(1, Database::builder(config).tls(connector));
    let said = refusal(&database);
    assert!(said.contains("the server does not do TLS"), "{said}");
}

#[test]
fn a_certificate_that_the_connector_does_not_trust_is_no_connection() {
    let Some(Encrypted { server, .. }) = encrypted() else { return };
    let mut config = server.config();
    config.ssl_mode(SslMode::Require);
    let (_runtime, _, database) = build_with(1, Database::builder(config).tls(trusting(&[])));
    let said = refusal(&database);
    assert!(said.contains("certificate"), "{said}");
}

#[test]
fn what_cannot_be_meant_is_refused_when_it_is_built() {
    let runtime =
        Runtime::builder().bulkhead(Bulkhead::builder("plain").threads(1)).build().unwrap();
    let bulkhead = runtime.bulkhead("plain").unwrap();
    let mut config: Config = "host=127.0.0.1 sslmode=require".parse().unwrap();
    let error = Database::builder(config.clone()).build(&bulkhead).unwrap_err();
    assert_eq!((error.bulkhead(), error.setting()), (Some("plain"), "sslmode"));
    config.ssl_mode(SslMode::Prefer).ssl_negotiation(SslNegotiation::Direct);
    let error = Database::builder(config).tls(trusting(&[])).build(&bulkhead).unwrap_err();
    assert_eq!((error.bulkhead(), error.setting()), (Some("plain"), "sslnegotiation"));
}

#[test]
fn what_a_job_leaves_behind_is_known_through_tls_too() {
    let Some(Encrypted { server, connector }) = encrypted() else { return };
    let mut config = server.config();
    config.ssl_mode(SslMode::Require);
    let (_runtime, _, database) = build_with(1, Database::builder(config).tls(connector.clone()));
    let (before, open) = (backend(&database), "begin; create temp table left_open ()");
    database.call(move |client, _| client.batch_execute(open)).unwrap().unwrap();
    let gone = database.call(|client, _| -> Result<bool, Error> {
        Ok(client.query_one("select to_regclass('left_open') is null", &[])?.get(0))
    });
    assert!(gone.unwrap().unwrap(), "it was rolled back");
    assert_eq!(backend(&database), before, "the connection was good, and was kept");
    let half = database.call(|client, _| {
        use watertight::postgres::client::fallible_iterator::FallibleIterator;
        let none: [&(dyn watertight::postgres::types::ToSql + Sync); 0] = [];
        let mut rows = client.query_raw("select generate_series(1, 1000000)", none)?;
        rows.next().map(|row| row.is_some())
    });
    assert!(half.unwrap().unwrap());
    assert_ne!(backend(&database), before, "the answer was not read to its end");
}

/// Passes everything on to `to`, and keeps the first eight bytes of each connection.
fn listening_in(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<[u8; 8]>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (heads, kept) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let notes = Arc::clone(&heads);
    thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let (notes, kept) = (Arc::clone(&notes), Arc::clone(&kept));
            thread::spawn(move || {
                let mut head = [0; 8];
                if client.read_exact(&mut head).is_err() {
                    return;
                }
                notes.lock().unwrap().push(head);
                let mut server = TcpStream::connect(to).unwrap();
                server.write_all(&head).unwrap();
                kept.lock().unwrap().push(client.try_clone().unwrap());
                let (mut back, mut forth) =
                    (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = std::io::copy(&mut back, &mut forth);
                    let _ = forth.shutdown(std::net::Shutdown::Both);
                });
                let _ = std::io::copy(&mut client, &mut server);
                let _ = server.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    (address, heads)
}

#[test]
fn a_cancel_in_the_middle_of_a_query_frees_the_thread_and_asks_the_server_through_tls() {
    let Some(Encrypted { server, connector }) = encrypted() else { return };
    let mut config = server.config();
    let (address, heads) =
        listening_in(SocketAddr::new([127, 0, 0, 1].into(), config.get_ports()[0]));
    let mut through: Config = "host=127.0.0.1 user=postgres sslmode=require".parse().unwrap();
    through.port(address.port());
    let (_runtime, bulkhead, database) =
        build_with(1, Database::builder(through).tls(connector.clone()));
    let started = Gate::new();
    let reached = started.clone();
    started.open();
    let job = database.submit(move |client, _| {
        reached.pass();
        client.batch_execute("select pg_sleep(60)")
    });
    let job = job.map_err(|refused| refused.reason()).unwrap();
    started.wait_for(1);
    config.ssl_mode(SslMode::Require);
    let mut outside = config.connect(connector.clone()).unwrap();
    let mut sleeping = || {
        let query = "select count(*) from pg_stat_activity \
                     where application_name = $1 and state = 'active' and query like '%pg_sleep%'";
        outside.query_one(query, &[&bulkhead.name()]).unwrap().get::<_, i64>(0)
    };
    while sleeping() == 0 {
        thread::yield_now();
    }
    job.cancel();
    let answer = within("the job", move || job.join().unwrap());
    assert!(matches!(answer, Ok(Err(_))), "{answer:?}");
    eventually("the thread is free", || bulkhead.snapshot().running == 0);
    assert_eq!(within("the next job", move || backend(&database)).signum(), 1);
    while sleeping() > 0 {
        thread::yield_now();
    }
    // SSLRequest; a cancel in the clear would be 80877102.
    let heads = heads.lock().unwrap();
    assert!(heads.len() >= 3, "a connection, a cancel, a connection: {heads:?}");
    assert!(heads.iter().all(|head| head[4..] == 80_877_103_u32.to_be_bytes()), "{heads:?}");
}

/// Reads the request for TLS, answers with `answer`, and is silent from then on.
fn silent_after(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let _ = client.read_exact(&mut [0; 8]);
                let _ = client.write_all(answer);
                let _ = client.read_to_end(&mut Vec::new());
            });
        }
    });
    address
}

#[test]
fn a_server_that_falls_silent_on_the_way_to_tls_costs_the_deadline_and_no_thread() {
    for answer in [&b""[..], b"S"] {
        let mut config: Config = "host=127.0.0.1 user=nobody sslmode=require".parse().unwrap();
        config.port(silent_after(answer).port());
        let builder =
            Database::builder(config).tls(trusting(&[])).connect_limit(Duration::from_millis(100));
        let (runtime, bulkhead, database) = build_with(2, builder);
        for _ in 0..2 {
            let caller = database.clone();
            let error = within("a caller", move || caller.call_until(soon(), |_, _| ()));
            assert!(error.is_err());
            eventually("its thread is free", || bulkhead.snapshot().running == 0);
        }
        // Each attempt comes to an end, so the connecting thread is free for the next one.
        let attempts = database.status().failed;
        eventually("the connecting thread is free", || {
            let _ = database.call_until(Deadline::after(Duration::from_millis(50)), |_, _| ());
            database.status().failed > attempts
        });
        let report = within("shutdown", move || runtime.shutdown(WATCHDOG).unwrap());
        assert!(report.is_clean(), "{report}");
    }
}

#[test]
fn an_answer_that_is_neither_yes_nor_no_is_named() {
    let mut config: Config = "host=127.0.0.1 user=nobody sslmode=require".parse().unwrap();
    config.port(silent_after(b"HTTP/1.1 400").port());
    let (_runtime, _, database) = build_with(1, Database::builder(config).tls(trusting(&[])));
    let said = refusal(&database);
    assert!(said.contains("0x48"), "{said}");
}
