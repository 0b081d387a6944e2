//! A client whose connection may break, and is made again.

use std::net::SocketAddr;
use std::time::Duration;

use tokio_postgres::{Client, NoTls};

use crate::processes::{ask, error_text};

/// A statement that takes longer hangs. It asks a worker a few questions, each of which ends within
/// five seconds.
const LONGEST: Duration = Duration::from_secs(60);

/// Why there is no answer.
pub enum Failure {
    /// The statement was not sent.
    Unsent,
    /// It was, and may have happened.
    Unknown,
}

pub struct Session {
    address: SocketAddr,
    /// What each connection is told first.
    settings: &'static str,
    client: Option<Client>,
    /// What kept the last statement that failed from an answer.
    pub error_text: String,
}

impl Session {
    pub fn new(address: SocketAddr, settings: &'static str) -> Session {
        Session { address, settings, client: None, error_text: String::new() }
    }

    /// The last column of what a statement gives. It ends.
    pub async fn ask(&mut self, sql: &str) -> Result<Vec<String>, Failure> {
        let ended = tokio::time::timeout(LONGEST, self.attempt(sql)).await;
        ended.unwrap_or_else(|_| panic!("{sql} hangs"))
    }

    async fn attempt(&mut self, sql: &str) -> Result<Vec<String>, Failure> {
        let kept = self.client.take().filter(|client| !client.is_closed());
        let connected = match kept {
            Some(client) => Ok(client),
            None => self.connect().await,
        };
        let client = match connected {
            Ok(client) => self.client.insert(client),
            Err(error) => {
                self.error_text = error_text(&error);
                return Err(Failure::Unsent);
            }
        };
        ask(client, sql).await.map_err(|error| {
            self.error_text = error_text(&error);
            Failure::Unknown
        })
    }

    async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        let (host, port) = (self.address.ip(), self.address.port());
        let config = format!("host={host} port={port} user=thalweg");
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute(self.settings).await?;
        Ok(client)
    }
}
