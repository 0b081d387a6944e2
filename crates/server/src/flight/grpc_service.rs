//! Entry point of the Flight service. It authenticates every call before tonic sees it, and answers
//! `DoGet` itself, with frames that no layer below copies.
//!
//! Promises: web pages are refused, and unauthenticated clients can send only a few bytes.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow_flight::Ticket;
use arrow_flight::flight_service_server::FlightServiceServer;
use axum::body::to_bytes;
use hyper::header::{HeaderValue, SET_COOKIE};
use hyper::{Request, Response, StatusCode};
use prost::Message;
use thalweg_types::Result;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

use super::Flight;
use super::encode::Frame;
use super::identity::{Caller, peer_of};
use super::service::FlightCalls;
use super::upload::protocol;
use crate::grpc::errors::status;
use crate::grpc::{Upload, is_grpc, streamed};
use crate::origin_guard::keep_pages_out;
use crate::read_ahead::ReadAhead;
use crate::web::ClientConnection;

const HANDSHAKE: &str = "/arrow.flight.protocol.FlightService/Handshake";
const DO_GET: &str = "/arrow.flight.protocol.FlightService/DoGet";

/// Maximum size of a ticket, which carries a statement's text.
const TICKET_BYTES_MAX: usize = 16 << 20;

/// Maximum size of one message of an upload, which clients choose themselves.
const UPLOAD_BYTES_MAX: usize = 256 << 20;

/// Maximum size of a handshake, which carries a user and a password.
const HANDSHAKE_BYTES_MAX: usize = 16 << 10;

#[derive(Clone)]
pub(crate) struct FlightGrpcService {
    flight: Arc<Flight>,
    /// Calls of authenticated clients.
    calls: FlightServiceServer<FlightCalls>,
    /// Handshakes, with a smaller message limit.
    handshakes: FlightServiceServer<FlightCalls>,
}

impl FlightGrpcService {
    pub(crate) fn new(flight: Arc<Flight>) -> FlightGrpcService {
        let calls = |bytes_max| {
            FlightServiceServer::new(FlightCalls(Arc::clone(&flight)))
                .max_decoding_message_size(bytes_max)
        };
        let (calls, handshakes) = (calls(UPLOAD_BYTES_MAX), calls(HANDSHAKE_BYTES_MAX));
        FlightGrpcService { flight, calls, handshakes }
    }

    async fn answer(mut self, request: Request<Body>) -> Response<Body> {
        if !is_grpc(request.headers()) {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return response;
        }
        let policy = self.flight.shared.policy;
        let peer = peer_of(request.extensions()).and_then(|peer| {
            keep_pages_out(policy, request.headers(), request.uri(), peer)?;
            Ok(peer)
        });
        let peer = match peer {
            Ok(peer) => peer,
            Err(error) => return self.flight.refused(&error).into_http(),
        };
        if request.uri().path() == HANDSHAKE {
            return self.shake_hands(request).await;
        }
        match self.flight.identify(request.headers(), peer).await {
            Ok(mut caller) => {
                caller.line = request.extensions().get::<ClientConnection>().cloned();
                self.call(caller, request).await
            }
            Err(error) => self.flight.refused(&error).into_http(),
        }
    }

    async fn shake_hands(&mut self, request: Request<Body>) -> Response<Body> {
        let time = self.flight.shared.config.limits.startup_timeout();
        let shaken = tokio::time::timeout(time, forward(&mut self.handshakes, request)).await;
        shaken.unwrap_or_else(|_| {
            Status::deadline_exceeded("the handshake did not come in time").into_http()
        })
    }

    /// Answers a call of an authenticated client.
    async fn call(&mut self, caller: Caller, mut request: Request<Body>) -> Response<Body> {
        let mut response = if request.uri().path() == DO_GET {
            let frames = self.do_get(&caller, request).await;
            frames.map_or_else(|error| status(&error).into_http(), streamed)
        } else {
            request.extensions_mut().insert(caller.clone());
            forward(&mut self.calls, request).await
        };
        if let Some(cookie) = caller.new_cookie()
            && let Ok(cookie) = HeaderValue::try_from(cookie)
        {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }

    async fn do_get(&self, caller: &Caller, request: Request<Body>) -> Result<ReadAhead<Frame>> {
        let body = axum::body::Body::new(request.into_body());
        let body = to_bytes(body, TICKET_BYTES_MAX).await;
        let body =
            body.map_err(|error| protocol("the ticket did not arrive").with_source(error))?;
        // The body is one gRPC message: a compression flag, which must be zero since the server
        // offers no compression, a length, and the ticket.
        let ticket = match body.split_at_checked(5) {
            Some(([0, ..], ticket)) => Ticket::decode(ticket),
            _ => return Err(protocol("the ticket is compressed, or cut off")),
        };
        let ticket =
            ticket.map_err(|error| protocol("the ticket cannot be read").with_source(error))?;
        self.flight.do_get(caller, &ticket).await
    }
}

async fn forward(
    calls: &mut FlightServiceServer<FlightCalls>,
    request: Request<Body>,
) -> Response<Body> {
    let Ok(response) = calls.call(request.map(|body| Body::new(Upload(body)))).await;
    response
}

impl NamedService for FlightGrpcService {
    const NAME: &'static str = FlightServiceServer::<FlightCalls>::NAME;
}

impl Service<Request<Body>> for FlightGrpcService {
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
