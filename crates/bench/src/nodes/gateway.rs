//! A gateway between a worker and a client. Its first port serves gRPC clients, its second port
//! clients that read PostgreSQL's messages from a plain socket.

use std::sync::Arc;

use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _};
use hyper::Response;
use prost::Message as _;
use thalweg_cluster::chunks::Cutter;
use thalweg_cluster::link::{LinkOptions, NodeName, ReconnectingLink};
use thalweg_cluster::node::{Chunks, FETCH, NodeServer, ServeOptions, Services};
use thalweg_types::{Error, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tonic::body::Body;
use tonic::service::Routes;

use super::process::local;
use super::relay::{Way, relay, write_messages};
use super::rows::{Format, RowsWanted, postgres_rows};
use crate::errors::while_doing;

#[derive(Clone)]
struct Gateway {
    worker: ReconnectingLink,
    way: Way,
}

impl Chunks for Gateway {
    fn fetch(&self, question: Bytes) -> BoxFuture<'_, Result<Response<Body>>> {
        Box::pin(async move { Ok(relay(self.worker.call(FETCH, &question).await?, self.way)) })
    }
}

pub(super) async fn start(worker: u16, way: &str) -> Result<Vec<u16>> {
    let way = match way {
        "unopened" => Way::Unopened,
        "recoded" => Way::Recoded,
        _ => return Err(Error::internal(format!("there is no way \"{way}\""))),
    };
    let name = NodeName { id: 1, address: local(worker) };
    let worker = ReconnectingLink::new(name, Arc::new(LinkOptions::default()));
    let gateway = Gateway { worker, way };
    let options = ServeOptions { gathers_frames: true, ..ServeOptions::default() };
    let server = NodeServer::bind(local(0), options)?;
    let grpc = server.address()?.port();
    tokio::spawn(server.serve(Services::new(Arc::new(gateway.clone()), Routes::default())));
    let listener =
        TcpListener::bind(local(0)).await.map_err(while_doing("listening for clients"))?;
    let plain = listener.local_addr().map_err(while_doing("listening for clients"))?.port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let gateway = gateway.clone();
            // A client that leaves early gets no error.
            tokio::spawn(async move { gateway.plain(client).await });
        }
    });
    Ok(vec![grpc, plain])
}

impl Gateway {
    /// Serves a client that sends the number of messages that it wants, and reads until the end.
    async fn plain(&self, mut client: TcpStream) -> Result<()> {
        let failed = || "a client";
        let messages = client.read_u64_le().await.map_err(while_doing(failed()))?;
        let format = match self.way {
            Way::Unopened => Format::Postgres,
            Way::Recoded => Format::Flight,
        };
        let question = RowsWanted { messages, format: format as i32 }.encode_to_vec();
        let answer = self.worker.call(FETCH, &question).await?;
        if self.way == Way::Unopened {
            write_messages(answer, &mut client).await?;
            return Ok(());
        }
        let start = (answer, Cutter::new(64 << 20));
        let pieces = futures::stream::unfold(start, |(mut answer, mut cutter)| async {
            let piece = answer.piece().await.ok()??;
            let mut found = Vec::new();
            let _ = cutter.feed(&piece, |message| {
                found.push(FlightData::decode(message.to_bytes()).map_err(FlightError::from));
                Ok::<_, Error>(())
            });
            Some((futures::stream::iter(found), (answer, cutter)))
        });
        let mut batches = FlightRecordBatchStream::new_from_flight_data(pieces.flatten().boxed());
        let mut out = Vec::new();
        while let Some(batch) = batches.try_next().await.map_err(while_doing("decoding"))? {
            out.clear();
            postgres_rows(&batch, &mut out)?;
            client.write_all(&out).await.map_err(while_doing(failed()))?;
        }
        Ok(())
    }
}
