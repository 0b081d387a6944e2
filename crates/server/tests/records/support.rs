//! A server and clients of it.

use thalweg_client::Client;
use thalweg_query::Database;
use thalweg_server::{Server, ServerConfig};

pub use crate::messages::*;

pub struct World {
    pub server: Server,
    pub database: Database,
}

pub fn config() -> ServerConfig {
    let mut config = ServerConfig::default();
    config.listen.grpc_port = 0;
    config.listen.postgres_port = 0;
    config.listen.http_port = 0;
    config
}

impl World {
    /// A server with a table `account (id integer, amount integer, owner text)`.
    pub async fn new() -> World {
        let world = World::empty(config()).await;
        world.sql(ACCOUNT).await;
        world
    }

    pub async fn empty(config: ServerConfig) -> World {
        let database = Database::in_memory().unwrap();
        let server = Server::start(config, database.clone()).await.unwrap();
        World { server, database }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.server.addresses().grpc)
    }

    pub async fn client(&self) -> Client {
        Client::connect(&self.url()).await.unwrap()
    }

    pub async fn sql(&self, sql: &str) -> Vec<String> {
        rows(&mut self.database.session(), sql).await
    }
}
