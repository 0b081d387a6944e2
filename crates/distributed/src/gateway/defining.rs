//! The gateway as [`RemoteDefinitions`]: definitions go to workers and further gateways. The duties
//! of the first gateway (definitions, numbers of rows, advisory locks) are refused elsewhere.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::work::Kind;
use thalweg_query::{Definition, DefinitionQuorum, RemoteDefinitions};
use thalweg_types::{Error, Result, SqlState};

use super::{Gateway, definitions};

impl RemoteDefinitions for Gateway {
    fn readiness(&self) -> Result<()> {
        self.shared.presence.check(&self.shared.map.current())
    }

    fn may_number(&self) -> Result<()> {
        let following = self.shared.following.as_ref();
        following.map_or(Ok(()), |following| Err(following.numbers_elsewhere()))
    }

    fn may_lock(&self) -> Result<()> {
        let following = self.shared.following.as_ref();
        following.map_or(Ok(()), |following| Err(following.locks_elsewhere()))
    }

    fn can_define<'a>(
        &'a self,
        definition: &'a Definition,
        consent: DefinitionQuorum,
    ) -> BoxFuture<'a, Result<()>> {
        let (shared, definition) = (Arc::clone(&self.shared), definition.clone());
        self.on_links(async move {
            if let Some(following) = &shared.following {
                return Err(following.defines_elsewhere());
            }
            // The definition may be followed by rows as soon as it is committed. Buckets must not
            // move by then.
            if definition.creates_tables() {
                shared.presence.check_joined(&shared.map.current())?;
                shared.had_tables.store(true, Ordering::Release);
            }
            let ask = |place: usize| {
                let asked = Kind::CanDefine(definitions(std::slice::from_ref(&definition)));
                let shared = Arc::clone(&shared);
                async move { shared.ask_one::<wire::Done>(place, asked).await }
            };
            let map = shared.map().current();
            let answers = join_all((0..map.workers().len()).map(ask)).await;
            for (answer, buckets) in answers.into_iter().zip(map.shares()) {
                match answer {
                    Err(error) if error.state() == SqlState::CONNECTION_FAILURE => {
                        // An absent worker follows when it is back, unless the definition has to
                        // check its rows.
                        if consent == DefinitionQuorum::Owners && *buckets > 0 {
                            return Err(needs_rows_of(&error));
                        }
                    }
                    answer => drop(answer?),
                }
            }
            Ok(())
        })
    }

    fn define<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, ()> {
        self.shared.definitions.write().push(definition.clone());
        let (shared, number) = (Arc::clone(&self.shared), definition.number);
        let sent = self.on_links(async move {
            // Workers reject requests of gateways that are behind, so the following gateways get it
            // first.
            shared.followers.follow(number, &*shared.clock).await;
            let workers = shared.map().current().workers().len();
            let send = |place: usize| {
                let shared = Arc::clone(&shared);
                async move { shared.bring_up(place).await }
            };
            join_all((0..workers).map(send)).await;
            Ok(())
        });
        // A worker that did not get it receives it before its next request.
        sent.map(drop).boxed()
    }
}

/// The error of a definition that needs an absent worker; `absence` names the worker.
fn needs_rows_of(absence: &Error) -> Error {
    let message = format!("this definition looks at all rows, and {}", absence.message());
    Error::new(absence.state(), message).with_hint(
        "Run the statement again once the worker is back. Definitions that look at no rows go on \
         meanwhile.",
    )
}
