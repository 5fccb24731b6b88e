//! Before traffic: do the server's connections suffice?

use watertight::postgres::client::NoTls;
use watertight::postgres::{Config, Database, check};

use super::{build, postgres};

/// How many connections the server has for ordinary users.
fn limit(config: &Config) -> usize {
    let mut client = config.connect(NoTls).unwrap();
    let of = |client: &mut watertight::postgres::Client, name: &str| -> usize {
        let row = client.query_opt("select setting from pg_settings where name = $1", &[&name]);
        row.unwrap().map_or(0, |row| row.get::<_, String>(0).parse().unwrap())
    };
    of(&mut client, "max_connections")
        - of(&mut client, "superuser_reserved_connections")
        - of(&mut client, "reserved_connections")
}

#[test]
fn bulkheads_that_want_more_than_the_server_has_are_told_so_before_there_is_traffic() {
    let Some(config) = postgres() else { return };
    let limit = limit(&config);
    let (_one, _, few) = build(3, config.clone());
    // The same server by another name.
    let mut other_name = config.clone();
    if std::env::var_os("DATABASE_URL").is_none() {
        other_name = Config::new();
        other_name.host("localhost").port(config.get_ports()[0]).user("postgres");
    }
    let (_two, _, fits) = build(limit - 3, other_name.clone());
    let (_three, _, too_many) = build(limit - 2, other_name);

    let plans = check([&few, &fits, &few.clone()]).unwrap();
    let [plan] = &*plans else { panic!("one server: {plans:?}") };
    assert_eq!((plan.planned(), plan.limit()), (limit, limit));
    assert_eq!(plan.bulkheads()[0], (few.bulkhead().name().to_owned(), 3));
    assert!(plan.in_use() >= 1);

    let error = check([&few, &too_many]).unwrap_err();
    let said = error.to_string();
    for part in [few.bulkhead().name(), too_many.bulkhead().name(), "max_connections"] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(error.plan().map(|plan| (plan.planned(), plan.limit())), Some((limit + 1, limit)));
    assert_eq!(few.check().unwrap().planned(), 3);
}

#[test]
fn a_database_that_does_not_answer_is_named() {
    let mut config = Config::new();
    config.host("127.0.0.1").port(1).user("nobody");
    let (_runtime, bulkhead, database) = build(1, config);
    let error = Database::check(&database).unwrap_err();
    assert!(error.to_string().contains(bulkhead.name()), "{error}");
    assert!(error.plan().is_none() && std::error::Error::source(&error).is_some());
}
