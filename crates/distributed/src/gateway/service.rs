//! Requests of other gateways, and of operators, to a gateway.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper::Response;
use prost::Message as _;
use thalweg_cluster::chunks::Pool;
use thalweg_cluster::node::{Chunks, chunks};
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::gateway_work::Kind;
use thalweg_types::{Error, Result, SqlState};
use tonic::body::Body;

use super::{Gateway, Shared, followers};
use crate::worker::OneMessage;

/// Number of buffers pooled for the next answers.
const BUFFERS_FREE_MAX: usize = 4;

pub(crate) struct GatewayService {
    shared: Arc<Shared>,
    pool: Pool,
}

impl GatewayService {
    pub(crate) fn new(gateway: &Gateway) -> GatewayService {
        GatewayService { shared: Arc::clone(&gateway.shared), pool: Pool::new(BUFFERS_FREE_MAX) }
    }

    async fn answer(&self, question: Bytes) -> Result<Response<Body>> {
        let work = wire::GatewayWork::decode(question).map_err(|error| malformed(&error))?;
        let answer = match work.kind.ok_or_else(|| malformed(&"nothing is asked"))? {
            Kind::Follow(follow) => OneMessage::of(&followers::answer(&self.shared, follow).await?),
            Kind::List(_) => OneMessage::of(&wire::Gateways { gateways: self.shared.gateways() }),
        };
        Ok(chunks(&self.pool, answer))
    }
}

impl Chunks for GatewayService {
    fn fetch(&self, question: Bytes) -> BoxFuture<'_, Result<Response<Body>>> {
        self.answer(question).boxed()
    }
}

fn malformed(why: &impl std::fmt::Display) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, format!("this asks a gateway for nothing: {why}"))
}
