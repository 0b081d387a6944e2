//! Many workers in one process, each with a socket of its own. Each sends the requested number of
//! chunks of the requested size.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use hyper::Response;
use prost::Message;
use thalweg_cluster::chunks::{CHUNK_BYTES, ChunkWriter, Fill, Pool, Source};
use thalweg_cluster::node::{Chunks, NodeServer, ServeOptions, Services, chunks};
use thalweg_types::Result;
use tonic::body::Body;
use tonic::service::Routes;

use super::process::local;
use crate::errors::while_doing;

/// Maximum size of a requested chunk.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Maximum size of the idle buffers of all workers of this process together.
const ALL_CHUNKS_BYTES: usize = 128 << 20;

/// A request for chunks.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct BytesWanted {
    #[prost(uint64, tag = "1")]
    pub chunks: u64,
    #[prost(uint64, tag = "2")]
    pub chunk_bytes: u64,
}

struct Sending {
    wanted: BytesWanted,
    bytes: Bytes,
}

impl Source for Sending {
    fn poll_fill(&mut self, _: &mut Context<'_>, writer: &mut ChunkWriter) -> Poll<Result<Fill>> {
        while self.wanted.chunks > 0 && !writer.is_full() {
            writer.shared(&self.bytes);
            self.wanted.chunks -= 1;
        }
        Poll::Ready(Ok(if self.wanted.chunks == 0 { Fill::End } else { Fill::More }))
    }
}

struct Sender {
    pool: Pool,
    bytes: Bytes,
}

impl Chunks for Sender {
    fn fetch(&self, question: Bytes) -> BoxFuture<'_, Result<Response<Body>>> {
        Box::pin(async {
            let wanted =
                BytesWanted::decode(question).map_err(while_doing("reading a question"))?;
            let bytes = self.bytes.slice(..(wanted.chunk_bytes as usize).min(CHUNK_BYTES_MAX));
            Ok(chunks(&self.pool, Sending { wanted, bytes }))
        })
    }
}

/// Starts this many workers.
pub(super) fn start(count: usize) -> Result<Vec<u16>> {
    let bytes = (0..CHUNK_BYTES_MAX).map(|place| place as u8).collect();
    let chunk_bytes = (ALL_CHUNKS_BYTES / count).clamp(64 << 10, CHUNK_BYTES);
    let pool = Pool::with_chunks_of(chunk_bytes, ALL_CHUNKS_BYTES / chunk_bytes);
    let sender = Arc::new(Sender { pool, bytes });
    let services = Services::new(sender, Routes::default());
    let mut ports = Vec::with_capacity(count);
    for _ in 0..count {
        let server = NodeServer::bind(local(0), ServeOptions::default())?;
        ports.push(server.address()?.port());
        tokio::spawn(server.serve(services.clone()));
    }
    Ok(ports)
}
