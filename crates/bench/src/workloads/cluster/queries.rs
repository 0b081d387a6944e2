//! Queries to a cluster and to one process, in turns, and a comparison of their results.

use std::process::Command;

use thalweg_types::Result;

use super::ONE;
use crate::clients::Connection;
use crate::clients::flight::Flight;
use crate::context::{Context, Scratch};
use crate::peers::{Cluster, ClusterOptions, OnDisk, Server, same, to_rows};
use crate::samples::Samples;

/// Both, with their rows in memory.
pub struct Systems {
    pub cluster: Cluster,
    pub one: Server,
    asks_cluster: Flight,
    asks_one: Flight,
    _scratch: Scratch,
}

/// The seconds of a query in each, and the error in the cluster's result, if any.
#[derive(Clone, Default)]
pub struct QueryTimes {
    pub cluster: Samples,
    pub one: Samples,
    pub wrong: Option<String>,
}

impl Systems {
    /// Starts one process, and a cluster of this many processes with this many workers each, whose
    /// gateway gets settings through its environment.
    pub async fn start(
        context: &Context,
        name: &str,
        workers: usize,
        logical: usize,
        settings: &[(&str, String)],
    ) -> Result<Systems> {
        let scratch = context.scratch_for_servers(name)?;
        let on_disk = OnDisk::Nothing;
        let options = ClusterOptions { name: "gateway", workers, logical, on_disk, settings };
        let cluster = Cluster::start(context.program(), scratch.path(), &options).await?;
        let mut command = Command::new(context.program());
        command.arg("serve");
        let one = Server::run(command, ONE, &scratch.path().join("one.log")).await?;
        Ok(Systems {
            asks_cluster: Flight::open(cluster.gateway.grpc_port).await?,
            asks_one: Flight::open(one.grpc_port).await?,
            cluster,
            one,
            _scratch: scratch,
        })
    }

    /// Creates and fills a table in both.
    pub async fn fill(&self, create: &str, copy: &str) -> Result<()> {
        for server in [&self.cluster.gateway, &self.one] {
            let mut connection = Connection::open(&server.endpoint).await?;
            connection.execute(create).await?;
            connection.execute(copy).await?;
        }
        Ok(())
    }

    /// Runs a query in both in turns, with one unmeasured run first.
    pub async fn ask(&mut self, context: &Context, sql: &str) -> Result<QueryTimes> {
        let mut asked = QueryTimes::default();
        for repetition in 0..=context.repetitions {
            let (one_seconds, expected) = context.timed(self.asks_one.rows(sql)).await?;
            let (seconds, rows) = match context.timed(self.asks_cluster.rows(sql)).await {
                Ok(answered) => answered,
                Err(error) => {
                    asked.wrong = Some(format!("{error:?}"));
                    return Ok(asked);
                }
            };
            if let Err(difference) = same(&to_rows(&rows)?, &to_rows(&expected)?) {
                asked.wrong = Some(difference);
            }
            if repetition > 0 {
                asked.cluster.push(seconds);
                asked.one.push(one_seconds);
            }
        }
        Ok(asked)
    }
}

impl QueryTimes {
    /// A line for the terminal: both medians in milliseconds, and the difference of results if
    /// there is one.
    pub fn line(&self, name: &str) -> String {
        let shown = |samples: &Samples| match samples.is_empty() {
            true => "      -".to_owned(),
            false => format!("{:7.1}", samples.median() * 1000.0),
        };
        let wrong = self.wrong.as_ref().map_or_else(String::new, |why| format!("  WRONG: {why}"));
        let [cluster, one] = [&self.cluster, &self.one].map(shown);
        format!("{name}  cluster {cluster} ms  {ONE} {one} ms{wrong}")
    }
}
