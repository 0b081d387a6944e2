use thalweg_env::{Env, SimulatedClock};

use super::*;

const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

async fn run(database: &Database, sql: &str) {
    database.session().execute(sql).await.unwrap();
}

async fn users() -> (Users, SimulatedClock) {
    let (env, _, clock) = Env::simulated(1);
    let database = Database::builder().env(env).open().unwrap();
    run(&database, "CREATE USER ann PASSWORD 'pencil'").await;
    run(&database, "CREATE USER silent").await;
    run(&database, "CREATE ROLE team NOLOGIN PASSWORD 'pencil'").await;
    (Users::new(database, Duration::from_secs(30)), clock)
}

#[tokio::test]
async fn the_right_password_lets_in_and_is_remembered_until_it_changes() {
    let (users, _) = users().await;
    for _ in 0..2 {
        let identity = users.check_password("ann", "pencil", PEER).await.unwrap();
        assert_eq!(identity.user, "ann");
    }
    let proof = users.verified_passwords.lock().proof("ann", "pencil", &users.verifier("ann"));
    assert!(users.verified_passwords.lock().knows(&proof));
    run(&users.database, "ALTER USER ann PASSWORD 'pen'").await;
    assert!(users.check_password("ann", "pencil", PEER).await.is_err());
    run(&users.database, "DROP USER ann").await;
    assert!(users.check_password("ann", "pen", PEER).await.is_err());
}

#[tokio::test]
async fn strangers_hear_what_the_wrong_password_hears() {
    let (users, _) = users().await;
    for user in ["ann", "silent", "nobody"] {
        let error = users.check_password(user, "wrong", PEER).await.unwrap_err();
        assert_eq!(error.state(), SqlState::INVALID_PASSWORD);
        let told = format!("password authentication failed for user \"{user}\"");
        assert_eq!((error.message(), error.detail()), (told.as_str(), None));
        let verifier = users.verifier(user);
        assert_eq!(verifier, users.verifier(user), "it is the same each time");
        assert_eq!((verifier.iterations(), verifier.salt().len()), (4096, 16));
    }
}

#[tokio::test]
async fn a_role_that_may_not_log_in_is_told_so_when_its_password_is_right() {
    let (users, _) = users().await;
    let error = users.check_password("team", "pencil", PEER).await.unwrap_err();
    assert_eq!(error.state(), SqlState::INVALID_AUTHORIZATION);
    let error = users.check_password("team", "wrong", PEER).await.unwrap_err();
    assert_eq!(error.state(), SqlState::INVALID_PASSWORD);
}

#[tokio::test]
async fn a_password_ends_when_it_was_said_to() {
    let (users, clock) = users().await;
    // Simulated time begins with the year 2026.
    run(&users.database, "ALTER USER ann VALID UNTIL '2026-01-02'").await;
    assert!(users.check_password("ann", "pencil", PEER).await.is_ok());
    clock.advance(Duration::from_secs(24 * 3600));
    assert!(users.check_password("ann", "pencil", PEER).await.is_err());
}

#[tokio::test]
async fn after_many_wrong_passwords_none_is_checked_until_time_has_passed() {
    let (users, clock) = users().await;
    let users = Users::new(users.database, Duration::from_millis(200));
    let elsewhere = IpAddr::from([10, 0, 0, 7]);
    assert!(users.check_password("ann", "pencil", PEER).await.is_ok());
    for number in 0..10 {
        let error = users.check_password("ann", &number.to_string(), PEER).await.unwrap_err();
        assert_eq!(error.state(), SqlState::INVALID_PASSWORD);
    }
    // Not even a password that is remembered tells whether it is right.
    for password in ["wrong", "pencil"] {
        let error = users.check_password("ann", password, PEER).await.unwrap_err();
        assert_eq!(error.state(), SqlState::TOO_MANY_CONNECTIONS);
    }
    assert!(users.check_password("ann", "pencil", elsewhere).await.is_ok());
    clock.advance(Duration::from_secs(1));
    assert!(users.check_password("ann", "pencil", PEER).await.is_ok());
}

#[tokio::test]
async fn right_passwords_that_come_at_once_are_all_let_in() {
    let (users, _) = users().await;
    let attempts = (0..100).map(|_| users.check_password("ann", "pencil", PEER));
    assert!(futures::future::join_all(attempts).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_token_stands_for_its_user_as_long_as_nothing_changes() {
    for (change, is_good) in [
        ("ALTER USER ann CREATEDB", true),
        ("CREATE USER another", true),
        ("ALTER USER ann VALID UNTIL '2026-01-03'", true),
        ("ALTER USER ann NOLOGIN", false),
        ("ALTER USER ann PASSWORD 'pencil'", false),
        ("ALTER USER ann PASSWORD NULL", false),
        ("ALTER USER ann VALID UNTIL '2025-12-31'", false),
        ("DROP USER ann", false),
        ("DROP USER ann; CREATE USER ann PASSWORD 'pencil'", false),
    ] {
        let (users, _) = users().await;
        let token = users.issue_token(&users.admit("ann").unwrap());
        assert_eq!(users.check_token(&token).unwrap().user, "ann");
        for statement in change.split(';') {
            run(&users.database, statement).await;
        }
        assert_eq!(users.check_token(&token).is_ok(), is_good, "{change}");
        assert!(users.check_token("0123").is_err());
    }
}

#[tokio::test]
async fn a_token_ends_with_its_users_password() {
    let (users, clock) = users().await;
    run(&users.database, "ALTER USER ann VALID UNTIL '2026-01-02'").await;
    let token = users.issue_token(&users.admit("ann").unwrap());
    assert!(users.check_token(&token).is_ok());
    clock.advance(Duration::from_secs(24 * 3600));
    assert!(users.check_token(&token).is_err());
}
