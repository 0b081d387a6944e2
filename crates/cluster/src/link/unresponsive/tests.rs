use std::net::SocketAddr;

use futures::FutureExt as _;
use thalweg_types::SqlState;

use super::*;
use crate::link::ReconnectingLink;
use crate::map::{Moving, ShardMap};
use crate::node::FETCH;
use crate::security::{Secret, Security};
use crate::tests::*;

const FEW: Wanted = Wanted { messages: 3, bytes: 10, end: End::Well };

/// A worker behind a wire, and its caller.
struct Asked {
    _worker: TestWorker,
    wire: Wire,
    map: SharedMap,
    silent: UnresponsiveNodes,
    link: ReconnectingLink,
}

impl Asked {
    async fn new() -> Asked {
        let worker = TestWorker::start(7);
        let wire = Wire::to(&worker.name).await;
        let map = SharedMap::new(ShardMap::even(vec![wire.name.clone()]));
        let silent = UnresponsiveNodes::new(map.clone(), &impatient());
        let link = remembered(&wire, &silent);
        Asked { _worker: worker, wire, map, silent, link }
    }

    /// A worker whose wire goes dead, after one call has waited for it.
    async fn silent() -> Asked {
        let asked = Asked::new().await;
        call(&asked.link).await.unwrap();
        asked.wire.set(WireState::Dead);
        let error = call(&asked.link).await.unwrap_err();
        assert!(error.message().contains("silent for 400 ms"), "{error}");
        asked
    }

    async fn until_it_may_be_asked(&self) {
        let name = &self.wire.name;
        until("everybody may ask it", || self.silent.may_ask(name).is_ok()).await;
    }
}

fn remembered(wire: &Wire, silent: &UnresponsiveNodes) -> ReconnectingLink {
    ReconnectingLink::new(wire.name.clone(), Arc::new(impatient()))
        .with_unresponsive_nodes(silent.clone())
}

/// Asks for a few messages.
async fn call(link: &ReconnectingLink) -> Result<()> {
    let mut answer = link.call(FETCH, &FEW.question()).await?;
    while answer.piece().await?.is_some() {}
    Ok(())
}

#[tokio::test]
async fn nobody_waits_for_a_silent_worker_once_more() {
    let asked = Asked::silent().await;
    let other = remembered(&asked.wire, &asked.silent);
    for link in [&asked.link, &other, &asked.link] {
        let told = call(link).now_or_never().expect("nothing is waited for");
        let error = told.unwrap_err();
        assert_eq!(error.state(), SqlState::CONNECTION_FAILURE);
        assert!(error.message().starts_with(&asked.wire.name.to_string()), "{error}");
        assert!(error.message().contains("silent for 400 ms"), "{error}");
    }
    // A call that must be tried is tried.
    assert!(other.link_anyway().await.is_ok(), "the wire takes connections");
}

#[tokio::test]
async fn a_worker_that_answers_again_is_asked_again() {
    let asked = Asked::silent().await;
    asked.wire.set(WireState::Working);
    asked.until_it_may_be_asked().await;
    call(&asked.link).await.unwrap();
    // It is found silent once more.
    asked.wire.set(WireState::Dead);
    assert!(call(&asked.link).await.is_err());
    assert!(call(&asked.link).now_or_never().expect("nothing is waited for").is_err());
}

#[tokio::test]
async fn a_worker_that_refuses_is_not_silent() {
    let asked = Asked::silent().await;
    asked.wire.set(WireState::Cut);
    asked.until_it_may_be_asked().await;
    let error = call(&asked.link).await.unwrap_err();
    assert_eq!(error.state(), SqlState::CONNECTION_FAILURE);
    assert!(!error.message().contains("silent"), "{error}");
}

/// As if a host has no power, and its neighbours report that.
#[tokio::test]
async fn a_worker_to_which_there_is_no_way_is_silent() {
    // No connection leads to a group of hosts.
    let address = SocketAddr::from(([224, 0, 0, 1], 7_473));
    let name = NodeName { id: 7, address };
    let map = SharedMap::new(ShardMap::even(vec![name.clone()]));
    let secret = Secret::new(b"sixteen bytes or more").unwrap();
    let options = LinkOptions { security: Security::Secret(secret), ..impatient() };
    let silent = UnresponsiveNodes::new(map, &options);
    let link = ReconnectingLink::new(name, Arc::new(options)).with_unresponsive_nodes(silent);
    let first = call(&link).await.unwrap_err();
    let waited = timeout(3 * impatient().silence, pending::<()>()).await;
    assert!(waited.is_err());
    let told = call(&link).now_or_never().expect("nothing is waited for").unwrap_err();
    assert_eq!(told.message(), first.message());
}

#[tokio::test]
async fn a_worker_that_is_slow_is_asked_by_everybody() {
    let asked = Asked::new().await;
    let slow = Wanted { end: End::Never, ..FEW };
    let mut answer = asked.link.call(FETCH, &slow.question()).await.unwrap();
    answer.piece().await.unwrap();
    let waited = timeout(3 * impatient().silence, answer.piece()).await;
    assert!(waited.is_err(), "it answers pings, and has nothing to say");
    asked.silent.may_ask(&asked.wire.name).unwrap();
    call(&remembered(&asked.wire, &asked.silent)).await.unwrap();
}

#[tokio::test]
async fn a_worker_that_is_elsewhere_now_is_left_alone() {
    let asked = Asked::silent().await;
    let elsewhere = NodeName { id: 7, address: anywhere() };
    asked.map.change(|map| map.with(elsewhere, 7, Moving::Allowed)).await.unwrap();
    asked.until_it_may_be_asked().await;
}
