//! A further gateway: it follows the map and the definitions of the first one.
//!
//! It asks the first gateway for news again and again; each answer comes as soon as there is news.
//! It also adopts definitions that a worker knows and it does not, so it can go on while the first
//! gateway is away.
//!
//! Invariants: one task applies definitions, in order and each with its row of the journal. While
//! the first gateway is away, everything but definitions goes on with the known state.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use prost::Message as _;
use thalweg_cluster::link::{LinkOptions, NodeName, ReconnectingLink};
use thalweg_cluster::map::ShardMap;
use thalweg_cluster::node::FETCH;
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::gateway_work::Kind;
use thalweg_query::{Database, Shards};
use thalweg_runtime::interval;
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::{mpsc, oneshot};

use super::{Gateway, Shared};
use crate::node::JoinReporter;
use crate::worker::{known, storage_to_wire};

/// Pause before the first gateway is asked again after a failure.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Capacity of the queue of definitions that statements heard from workers.
const HEARD_MAX: usize = 64;

/// Handle to the [`Follower`] for a further gateway's statements.
#[derive(Clone)]
pub(crate) struct Following {
    first: SocketAddr,
    heard: mpsc::Sender<Heard>,
    /// All gateways, as the first one described them last.
    gateways: Arc<Mutex<Vec<wire::GatewayEntry>>>,
}

/// Definitions that a worker knew, and the channel to the statement that waits for them.
pub(crate) struct Heard {
    definitions: Vec<wire::Definition>,
    done: oneshot::Sender<Result<()>>,
}

impl Following {
    /// A handle for a gateway that follows the one at an address, and the queue that [`Follower`]
    /// reads.
    pub(crate) fn new(first: SocketAddr) -> (Following, mpsc::Receiver<Heard>) {
        let (heard, hears) = mpsc::channel(HEARD_MAX);
        let unknown = wire::GatewayEntry {
            address: first.to_string(),
            defines: true,
            ..wire::GatewayEntry::default()
        };
        let gateways = Arc::new(Mutex::new(vec![unknown]));
        (Following { first, heard, gateways }, hears)
    }

    pub(crate) fn first(&self) -> SocketAddr {
        self.first
    }

    /// Has the [`Follower`] apply definitions that came from a worker, and waits for it.
    ///
    /// # Errors
    /// If they cannot be applied.
    pub(super) async fn follow_definitions(
        &self,
        definitions: Vec<wire::Definition>,
    ) -> Result<()> {
        let ended = || Error::new(SqlState::SHUTTING_DOWN, "this gateway is ending");
        let (done, followed) = oneshot::channel();
        self.heard.send(Heard { definitions, done }).await.map_err(|_| ended())?;
        followed.await.map_err(|_| ended())?
    }

    /// All gateways, with `own` as the entry of this one.
    pub(super) fn entries(&self, own: wire::GatewayEntry) -> Vec<wire::GatewayEntry> {
        let mut all = self.gateways.lock().clone();
        match all.iter_mut().find(|entry| entry.gateway == own.gateway) {
            Some(entry) => *entry = own,
            None => all.push(own),
        }
        all
    }

    fn update_gateways(&self, mut gateways: Vec<wire::GatewayEntry>) {
        for gateway in gateways.iter_mut().filter(|gateway| gateway.defines) {
            // The first gateway may not know the address at which it is reached.
            gateway.address = self.first.to_string();
        }
        *self.gateways.lock() = gateways;
    }

    fn missed(&self) {
        for gateway in self.gateways.lock().iter_mut().filter(|gateway| gateway.defines) {
            gateway.answers = false;
        }
    }

    pub(super) fn defines_elsewhere(&self) -> Error {
        let message = format!("definitions are the business of the gateway at {}", self.first);
        Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(
            "This gateway follows it (--join). Run the statement there: it counts here from then \
             on.",
        )
    }

    pub(super) fn numbers_elsewhere(&self) -> Error {
        let message = format!("rows are numbered by the gateway at {} alone", self.first);
        Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(
            "Run the statement there, or give a value to the column that counts: two gateways \
             would give the same numbers.",
        )
    }

    pub(super) fn locks_elsewhere(&self) -> Error {
        let message = format!("advisory locks are those of the gateway at {} alone", self.first);
        Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(
            "Take the lock in a session there: what is locked here would exclude nobody there.",
        )
    }

    pub(super) fn is_no_first(&self) -> Error {
        let message = format!("this gateway follows the one at {}", self.first);
        Error::new(SqlState::OBJECT_NOT_IN_STATE, message)
            .with_hint("Name that one with --join instead.")
    }
}

/// The task that applies the first gateway's definitions.
pub(crate) struct Follower {
    shared: Arc<Shared>,
    following: Following,
    shards: Shards,
    first: ReconnectingLink,
    heard: mpsc::Receiver<Heard>,
    reporter: Option<JoinReporter>,
    /// Reason of the last failure to follow the first gateway.
    said: Option<String>,
}

impl Follower {
    pub(crate) fn new(
        gateway: &Gateway,
        database: &Database,
        (following, heard): (Following, mpsc::Receiver<Heard>),
        link: &Arc<LinkOptions>,
        reporter: Option<JoinReporter>,
    ) -> Follower {
        // Gateways have no numbers that others know. The address identifies the gateway.
        let first = NodeName { id: 0, address: following.first };
        Follower {
            shared: Arc::clone(&gateway.shared),
            following,
            shards: database.shards(),
            first: ReconnectingLink::new(first, Arc::clone(link)),
            heard,
            reporter,
            said: None,
        }
    }

    /// Follows until nothing is missing, or the first gateway turns out to be away.
    ///
    /// # Errors
    /// If it is away and no worker is known yet, or if it cannot be followed.
    pub(crate) async fn catch_up(&mut self) -> Result<()> {
        loop {
            let news = match self.ask(false).await {
                Ok(news) => news,
                Err(error) if self.shared.map.current().workers().is_empty() => {
                    return Err(knows_nothing(&error));
                }
                Err(error) if error.state() == SqlState::CONNECTION_FAILURE => {
                    self.note(Some(&error));
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            let first = news.gateways.first().map_or(0, |first| first.definitions);
            self.take_in(news).await?;
            if self.shared.last_definition() >= first {
                return Ok(());
            }
        }
    }

    /// Follows until the gateway ends.
    pub(crate) async fn run(mut self) {
        let mut asked = self.ask(false);
        loop {
            tokio::select! {
                news = &mut asked => {
                    let followed = match news {
                        Ok(news) => self.take_in(news).await,
                        Err(error) => Err(error),
                    };
                    self.note(followed.as_ref().err());
                    asked = self.ask(followed.is_err());
                }
                heard = self.heard.recv() => {
                    let Some(Heard { definitions, done }) = heard else { return };
                    // The statement may have been canceled.
                    let _ = done.send(self.follow(definitions).await);
                }
            }
        }
    }

    /// Asks the first gateway for news: after [`AGAIN_AFTER`] if `later`.
    fn ask(&self, later: bool) -> BoxFuture<'static, Result<wire::News>> {
        let follow = wire::Follow {
            gateway: self.shared.gateway,
            address: self.shared.address.clone(),
            definitions: self.shared.last_definition(),
            map_version: self.shared.map.current().version(),
            storage: storage_to_wire(&self.shared.storage),
        };
        let question = wire::GatewayWork { kind: Some(Kind::Follow(follow)) }.encode_to_vec();
        let first = self.first.clone();
        async move {
            if later {
                let mut ticks = interval(AGAIN_AFTER);
                // The first tick completes at once.
                ticks.tick().await;
                ticks.tick().await;
            }
            let message = first.call(FETCH, &question).await?.message().await?;
            wire::News::decode(message).map_err(|error| {
                let message = format!("{} told no news: {error}", first.name());
                Error::new(SqlState::PROTOCOL_VIOLATION, message)
            })
        }
        .boxed()
    }

    async fn take_in(&self, news: wire::News) -> Result<()> {
        if let Some(map) = &news.map {
            self.shared.map.offer(ShardMap::from_wire(map)?).await?;
        }
        self.follow(news.definitions).await?;
        self.following.update_gateways(news.gateways);
        Ok(())
    }

    /// Applies definitions and skips those that are known.
    async fn follow(&self, definitions: Vec<wire::Definition>) -> Result<()> {
        for definition in definitions {
            if definition.number <= self.shared.last_definition() {
                continue;
            }
            let definition = known(definition);
            self.shards.define(&definition).await?;
            self.shared.definitions.write().push(definition);
        }
        Ok(())
    }

    /// Reports why the first gateway cannot be followed, once for each reason.
    fn note(&mut self, failed: Option<&Error>) {
        let reason = failed.map(|error| error.message().to_owned());
        if failed.is_some() {
            self.following.missed();
        }
        if let (Some(error), Some(reporter)) = (failed, &self.reporter)
            && reason != self.said
        {
            reporter(&format!(
                "This gateway cannot follow {} and goes on with what it knows ({error}).",
                self.first.name()
            ));
        }
        self.said = reason;
    }
}

fn knows_nothing(error: &Error) -> Error {
    let message = format!("this gateway knows nothing of its cluster yet, and {}", error.message());
    Error::new(error.state(), message).with_hint(
        "Start the gateway first that --join names, with the same --cluster-secret, or \
         certificates of one authority.",
    )
}
