//! Reads a body piece by piece, decompressed and within its limits.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use futures::StreamExt;
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::Mutex;

use super::Failure;
use super::encoding::{Decompressor, STEP_BYTES};
use super::memory::BodyShare;
use crate::shared::Shared;

/// Bytes that are gathered before they are decoded.
const GATHER_BYTES: usize = 256 << 10;

/// Bytes of a failed request that are still read, and the time for them. A client that is sending
/// reads the response only then.
const DRAIN_BYTES: usize = 16 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(5);

type Pieces = Arc<Mutex<BodyDataStream>>;

/// The part of a body that is not read yet.
pub(in crate::http) struct BodyRest(Pieces);

impl BodyRest {
    /// Reads the rest of a body that failed and drops it, as far as that is soon done.
    pub(in crate::http) async fn drain(self) {
        let all = async {
            let (mut pieces, mut bytes) = (self.0.lock().await, 0);
            while let Some(Ok(piece)) = pieces.next().await {
                bytes += piece.len();
                if bytes > DRAIN_BYTES {
                    break;
                }
            }
        };
        // The response goes out in any case.
        let _ = tokio::time::timeout(DRAIN_TIME, all).await;
    }
}

pub(in crate::http) struct UploadBody {
    pieces: Pieces,
    decompressor: Decompressor,
    has_ended: bool,
    received_bytes: u64,
    decompressed_bytes: u64,
    bytes_max: u64,
    memory: BodyShare,
    /// Time that the client has for each piece.
    timeout: Duration,
}

impl UploadBody {
    /// # Errors
    /// 415 for an unknown encoding, 413 if the body announces more bytes than it may have.
    pub(in crate::http) fn new(
        headers: &HeaderMap,
        body: Body,
        shared: &Shared,
    ) -> Result<UploadBody, Failure> {
        let bytes_max = shared.config.ingest.body_bytes;
        let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if announced.and_then(|length| length.parse::<u64>().ok()) > Some(bytes_max) {
            return Err(too_large(bytes_max).into());
        }
        Ok(UploadBody {
            pieces: Arc::new(Mutex::new(body.into_data_stream())),
            decompressor: Decompressor::of(headers)?,
            has_ended: false,
            received_bytes: 0,
            decompressed_bytes: 0,
            bytes_max,
            memory: shared.body_memory.share(),
            timeout: shared.config.limits.startup_timeout(),
        })
    }

    pub(in crate::http) fn rest(&self) -> BodyRest {
        BodyRest(Arc::clone(&self.pieces))
    }

    /// The next bytes; `None` at the end of the body.
    ///
    /// # Errors
    /// If the body breaks off, is malformed or too large, or its client pauses for too long.
    pub(in crate::http) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(bytes) = self.decompressor.step()? {
                self.decompressed_bytes += bytes.len() as u64;
                self.check_size(self.decompressed_bytes)?;
                return Ok(Some(bytes));
            }
            if self.has_ended {
                return Ok(None);
            }
            let piece = async { self.pieces.lock().await.next().await };
            match tokio::time::timeout(self.timeout, piece).await {
                Err(_) => return Err(too_slow()),
                Ok(None) => {
                    self.decompressor.finish()?;
                    self.has_ended = true;
                }
                Ok(Some(Err(error))) => return Err(broken(&error.to_string())),
                Ok(Some(Ok(bytes))) => {
                    self.received_bytes += bytes.len() as u64;
                    self.check_size(self.received_bytes)?;
                    self.decompressor.push(bytes);
                }
            }
        }
    }

    /// Appends bytes to `text` until there are enough to decode; returns true at the end of the
    /// body. The caller holds `waiting_bytes` of an incomplete row besides `text`. A longer row is
    /// continued with more bytes at once, so that its beginning is not scanned too often.
    ///
    /// # Errors
    /// As [`UploadBody::next`]; 53200 if an incomplete row finds no memory to grow.
    pub(in crate::http) async fn gather(
        &mut self,
        text: &mut Vec<u8>,
        waiting_bytes: usize,
    ) -> Result<bool, Failure> {
        let before = text.len();
        let enough = before + GATHER_BYTES.max(before + waiting_bytes);
        while text.len() < enough {
            if let Err(error) = self.reserve(waiting_bytes + text.len()) {
                return if text.len() > before { Ok(false) } else { Err(error.into()) };
            }
            match self.next().await? {
                Some(bytes) => text.extend_from_slice(&bytes),
                None => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Reserves memory for the next piece besides the bytes that wait to be decoded.
    ///
    /// # Errors
    /// 53200 if too many bytes of all bodies wait.
    pub(in crate::http) fn reserve(&mut self, waiting_bytes: usize) -> Result<()> {
        match self.memory.resize(waiting_bytes + STEP_BYTES) {
            true => Ok(()),
            false => Err(short_of_memory()),
        }
    }

    fn check_size(&self, bytes: u64) -> Result<()> {
        if bytes > self.bytes_max { Err(too_large(self.bytes_max)) } else { Ok(()) }
    }
}

fn too_large(bytes_max: u64) -> Error {
    let message = format!("the body is longer than the limit of {bytes_max} bytes");
    Error::new(SqlState::LIMIT_EXCEEDED, message)
        .with_hint("Send the rows in several requests, or raise ingest.body_bytes.")
}

fn short_of_memory() -> Error {
    let message = "out of memory: too many long rows arrive at the same time";
    Error::new(SqlState::OUT_OF_MEMORY, message).with_hint("Try again later, or send shorter rows.")
}

fn too_slow() -> Failure {
    let message = "the body did not arrive in time";
    Failure::new(StatusCode::REQUEST_TIMEOUT, Error::new(SqlState::CONNECTION_FAILURE, message))
}

fn broken(reason: &str) -> Failure {
    let error =
        Error::new(SqlState::CONNECTION_FAILURE, format!("the body did not arrive: {reason}"));
    Failure::new(StatusCode::BAD_REQUEST, error)
}
