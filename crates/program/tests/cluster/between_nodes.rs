//! What nodes show each other, and links between them that are cut: processes with secrets and
//! certificates, on hosts of their own where this machine makes such.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use tempfile::TempDir;

use super::hosts::{Host, Way};
use super::processes::*;

#[expect(
    clippy::disallowed_methods,
    reason = "secrets and certificates are no files of a database"
)]
fn write(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn secret(directory: &TempDir, name: &str, text: &str) -> Vec<String> {
    vec!["--cluster-secret".to_owned(), write(directory.path(), name, text)]
}

/// An authority of its own, and a certificate for these addresses.
fn certificates(directory: &TempDir, name: &str, addresses: &[IpAddr]) -> Vec<String> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names = addresses.iter().map(|one| SanType::IpAddress(*one)).collect();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let mut shown = Vec::new();
    for (what, text) in [
        ("authority", authority.pem()),
        ("certificate", certificate.pem()),
        ("key", key.serialize_pem()),
    ] {
        shown.push(format!("--cluster-{what}"));
        shown.push(write(directory.path(), &format!("{name}-{what}.pem"), &text));
    }
    shown
}

/// What a node that is refused says, and how it ends.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let ended = thalweg(arguments).output().unwrap();
    (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
}

#[test]
fn nodes_beyond_this_machine_show_who_they_are() {
    let join = ["--join", "127.0.0.1:1"];
    let open = refused(&[&["worker", "--listen", "0.0.0.0:0"], &join[..]].concat());
    assert_eq!(open.0, Some(3), "{}", open.1);
    assert!(open.1.contains("need mutual TLS or a shared secret"), "{}", open.1);
    assert!(open.1.contains("--cluster-secret"), "{}", open.1);
    let open = refused(&["gateway", "--nodes", "0.0.0.0:0", "--postgres-port", "0"]);
    assert_eq!(open.0, Some(3), "{}", open.1);
    assert!(open.1.contains("need mutual TLS or a shared secret"), "{}", open.1);
    let directory = tempfile::tempdir().unwrap();
    let shown = secret(&directory, "secret", "sixteen bytes or more");
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    let lost = refused(&[&["worker", "--listen", "0.0.0.0:0"], &join[..], &shown].concat());
    assert_eq!(lost.0, Some(3), "{}", lost.1);
    assert!(lost.1.contains("--advertise"), "{}", lost.1);
    let short = secret(&directory, "short", "short");
    let short: Vec<&str> = short.iter().map(String::as_str).collect();
    let short = refused(&[&["worker"], &join[..], &short].concat());
    assert_eq!(short.0, Some(3), "{}", short.1);
}

/// A cluster whose nodes show one thing answers those who show it, and nobody else.
async fn keeps_strangers_out(shown: Vec<String>, strangers: [Vec<String>; 2]) {
    let setting = Setting { shown, ..Setting::default() };
    let cluster = Processes::start_in(setting, 2).await;
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY)").await.unwrap();
    cluster.ask("INSERT INTO t SELECT n FROM generate_series(1, 1000) AS s(n)").await.unwrap();
    assert_eq!(cluster.ask("SELECT count(*) FROM t").await.unwrap(), ["1000"]);
    for stranger in &strangers {
        let error_text = cluster.status(stranger);
        assert!(!error_text.contains("2 workers"), "{stranger:?} were told {error_text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_keeps_strangers_out() {
    let directory = tempfile::tempdir().unwrap();
    let ours = secret(&directory, "ours", "a secret that all nodes have");
    let theirs = secret(&directory, "theirs", "a secret of somebody else");
    keeps_strangers_out(ours, [theirs, Vec::new()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_keep_strangers_out() {
    let directory = tempfile::tempdir().unwrap();
    let here = [IpAddr::from([127, 0, 0, 1])];
    let ours = certificates(&directory, "ours", &here);
    let theirs = certificates(&directory, "theirs", &here);
    keeps_strangers_out(ours, [theirs, Vec::new()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_not_let_in_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let shown = secret(&directory, "ours", "a secret that all nodes have");
    let cluster = Processes::start_in(Setting { shown, ..Setting::default() }, 0).await;
    let mut stranger = thalweg(&["worker", "--listen", "127.0.0.1:0", "--join", &cluster.join]);
    let (_stranger, [printed]) = Node::start(&mut stranger, ["cannot join the gateway at"]);
    assert!(
        printed.starts_with(&cluster.join) && printed.contains("--cluster-secret"),
        "{printed}"
    );
}

/// Workers on hosts of their own, with certificates; `None` where this machine makes no hosts.
async fn on_hosts(directory: &TempDir, workers: usize) -> Option<Processes> {
    let hosts: Option<Vec<Host>> = (0..workers).map(|_| Host::new()).collect();
    let Some(hosts) = hosts else {
        println!("This machine makes no network namespaces: nothing is cut.");
        return None;
    };
    let mut addresses = vec![IpAddr::from([127, 0, 0, 1])];
    for host in &hosts {
        addresses.extend([IpAddr::from(host.inside), IpAddr::from(host.outside)]);
    }
    let shown = certificates(directory, "ours", &addresses);
    Some(Processes::start_in(Setting { shown, hosts, ..Setting::default() }, workers).await)
}

/// A key that is inserted; what was said where it was not.
async fn insert(cluster: &Processes, key: u32) -> Result<(), String> {
    let inserted = cluster.ask(&format!("INSERT INTO t VALUES ({key})")).await;
    inserted.map(drop).map_err(|error| error_text(&error))
}

async fn a_cut(way: Way) {
    let directory = tempfile::tempdir().unwrap();
    let Some(cluster) = on_hosts(&directory, 3).await else { return };
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY)").await.unwrap();
    let mut acknowledged: Vec<u32> = (0..60).collect();
    for key in &acknowledged {
        insert(&cluster, *key).await.unwrap();
    }
    let cut = &cluster.setting.hosts[1];
    cut.cut(way);
    let error = cluster.ask("SELECT count(*) FROM t").await.unwrap_err();
    assert!(error_text(&error).contains(&cut.inside.to_string()), "{}", error_text(&error));
    // The other workers go on, and this one's keys are refused.
    let mut keys = 100..;
    let (mut others, mut refused) = (0, 0);
    while others == 0 || refused == 0 {
        let key = keys.next().unwrap();
        match insert(&cluster, key).await {
            Ok(()) => {
                acknowledged.push(key);
                others += 1;
            }
            Err(error) => {
                assert!(error.contains(&cut.inside.to_string()), "{error}");
                refused += 1;
            }
        }
    }
    cut.mend(way);
    cluster.at_last("SELECT count(*) FROM t").await;
    for key in keys.take(20) {
        insert(&cluster, key).await.unwrap();
        acknowledged.push(key);
    }
    let found = cluster.ask("SELECT id FROM t").await.unwrap();
    let found: BTreeSet<u32> = found.iter().map(|id| id.parse().unwrap()).collect();
    let lost: Vec<&u32> = acknowledged.iter().filter(|key| !found.contains(key)).collect();
    assert!(lost.is_empty(), "{lost:?} were acknowledged and are gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_hears_nothing_is_named_and_used_again() {
    a_cut(Way::To).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_nobody_hears_is_named_and_used_again() {
    a_cut(Way::From).await;
}
