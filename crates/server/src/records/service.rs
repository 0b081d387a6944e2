//! The record API's gRPC service: finds the call of a request and authenticates its caller.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::ConnectInfo;
use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use thalweg_types::{Error, Result};
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

use super::caller::Caller;
use super::calls::Call;
use super::memory::Memory;
use super::resuming_writers::{Turn, Writers};
use super::{describe, search, writes};
use crate::connections::FrontEnd;
use crate::credentials::{self, Credentials};
use crate::grpc::errors::status;
use crate::grpc::{Upload, is_grpc};
use crate::origin_guard::keep_pages_out;
use crate::shared::Shared;

/// State shared by all calls.
pub(super) struct RecordsService {
    pub(super) shared: Arc<Shared>,
    pub(super) memory: Memory,
    writers: Writers,
}

#[derive(Clone)]
pub(crate) struct RecordsConnection(Arc<RecordsService>);

impl RecordsConnection {
    pub(crate) fn new(shared: &Arc<Shared>) -> RecordsConnection {
        let memory = shared.ingest_memory.clone();
        let writers = Writers::default();
        RecordsConnection(Arc::new(RecordsService { shared: Arc::clone(shared), memory, writers }))
    }

    async fn answer(self, request: Request<Body>) -> Response<Body> {
        if !is_grpc(request.headers()) {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return response;
        }
        let path = request.uri().path().rsplit('/').next().unwrap_or_default();
        let Some(call) = Call::named(path) else {
            return Status::unimplemented("the record API has no such call").into_http();
        };
        let (head, body) = request.into_parts();
        match self.enter(call, &head).await {
            Ok((caller, turn)) => self.serve(call, caller, turn, Upload(body)).await,
            Err(error) => {
                self.0.shared.metrics.failed(FrontEnd::Records, &error);
                status(&error).into_http()
            }
        }
    }

    /// # Errors
    /// If authentication fails, or there are too many connections.
    async fn enter(&self, call: Call, head: &Parts) -> Result<(Caller, Option<Turn>)> {
        let peer = head.extensions.get::<ConnectInfo<SocketAddr>>();
        let peer = peer.map(|ConnectInfo(peer)| *peer);
        let peer = peer.ok_or_else(|| Error::internal("a client has no address"))?;
        let shared = &self.0.shared;
        keep_pages_out(shared.policy, &head.headers, &head.uri, peer)?;
        let given = head.headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        let given = given.map(Credentials::read).transpose()?;
        let user = credentials::user(shared, given, peer).await?;
        let caller = Caller::enter(shared, &user, peer, call)?;
        let turn = match call {
            Call::Write => self.0.writers.enter(&user, &head.headers)?,
            Call::Change(_) | Call::Search | Call::Describe => None,
        };
        Ok((caller, turn))
    }

    async fn serve(
        self,
        call: Call,
        caller: Caller,
        turn: Option<Turn>,
        body: Upload,
    ) -> Response<Body> {
        match call {
            Call::Write => writes::two_way(self.0, caller, turn, body),
            Call::Search => search::two_way(self.0, caller, body),
            Call::Describe => describe::answer(caller, body).await,
            Call::Change(change) => writes::one_way(self.0, caller, change, body).await,
        }
    }
}

impl NamedService for RecordsConnection {
    const NAME: &'static str = thalweg_protocol::SERVICE;
}

impl Service<Request<Body>> for RecordsConnection {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let door = self.clone();
        Box::pin(async move { Ok(door.answer(request).await) })
    }
}
