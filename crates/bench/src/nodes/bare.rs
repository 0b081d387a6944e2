//! The peer of a relay: tonic in its usual form, with a gateway that decodes messages and encodes
//! them again without reading their rows.

use std::convert::Infallible;
use std::task::{Context, Poll};

use arrow_flight::FlightData;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use hyper::Request as HttpRequest;
use thalweg_types::Result;
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::client::Grpc as ClientGrpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService, ServerStreamingService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::process::local;
use super::rows::{RowsWanted, flight_messages};
use crate::errors::while_doing;

/// Window sizes of our own nodes.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// A tonic client for any server of Flight messages at a path.
#[derive(Clone)]
pub struct BareClient {
    grpc: ClientGrpc<Channel>,
    path: &'static str,
}

impl BareClient {
    /// Connects to a gRPC method on a port of this machine, with large windows.
    pub async fn connect(port: u16, path: &'static str) -> Result<BareClient> {
        let endpoint = Endpoint::from_shared(format!("http://{}", local(port)))
            .map_err(while_doing("connecting"))?
            .tcp_nodelay(true)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        let channel = endpoint.connect().await.map_err(while_doing("connecting"))?;
        Ok(BareClient { grpc: ClientGrpc::new(channel), path })
    }

    /// Starts a call that streams the requested rows.
    pub async fn fetch(&mut self, wanted: RowsWanted) -> Result<Streaming<FlightData>, Status> {
        self.grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let path = PathAndQuery::from_static(self.path);
        let codec = ProstCodec::<RowsWanted, FlightData>::default();
        let answer = self.grpc.server_streaming(Request::new(wanted), path, codec).await?;
        Ok(answer.into_inner())
    }
}

#[derive(Clone)]
enum Bare {
    Rows { schema: FlightData, rows: FlightData },
    Gateway(BareClient),
}

/// The path of the service.
pub const BARE: &str = "/thalweg.bench.Bare/Fetch";

impl ServerStreamingService<RowsWanted> for Bare {
    type Response = FlightData;
    type ResponseStream = BoxStream<'static, Result<FlightData, Status>>;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<RowsWanted>) -> Self::Future {
        let wanted = request.into_inner();
        let answering = self.clone();
        Box::pin(async move {
            Ok(Response::new(match answering {
                Bare::Rows { schema, rows } => {
                    let messages = usize::try_from(wanted.messages).unwrap_or(usize::MAX);
                    stream::once(async { Ok(schema) })
                        .chain(stream::repeat(rows).take(messages).map(Ok))
                        .boxed()
                }
                Bare::Gateway(mut worker) => worker.fetch(wanted).await?.boxed(),
            }))
        })
    }
}

#[derive(Clone)]
struct BareService(Bare);

impl NamedService for BareService {
    const NAME: &'static str = "thalweg.bench.Bare";
}

impl Service<HttpRequest<Body>> for BareService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        let bare = self.0.clone();
        Box::pin(async move {
            let codec = ProstCodec::<FlightData, RowsWanted>::default();
            Ok(Grpc::new(codec).server_streaming(bare, request).await)
        })
    }
}

async fn serve(bare: Bare) -> Result<u16> {
    let listener = TcpListener::bind(local(0)).await.map_err(while_doing("listening"))?;
    let port = listener.local_addr().map_err(while_doing("listening"))?.port();
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = Server::builder().add_service(BareService(bare));
    tokio::spawn(server.serve_with_incoming(incoming));
    Ok(port)
}

pub(super) async fn start_rows() -> Result<u16> {
    let (schema, rows) = flight_messages()?;
    serve(Bare::Rows { schema, rows }).await
}

pub(super) async fn start_gateway(worker: u16) -> Result<u16> {
    serve(Bare::Gateway(BareClient::connect(worker, BARE).await?)).await
}
