//! Reads a body piece by piece, decompressed and within its limits.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use futures::StreamExt;
use thalweg_types::{Error, Result, SqlState};

use super::Failure;
use super::encoding::Decompressor;
use crate::config::ServerConfig;

/// Bytes that are gathered before they are decoded.
const GATHER_BYTES: usize = 256 << 10;

pub(in crate::http) struct UploadBody {
    pieces: BodyDataStream,
    decompressor: Decompressor,
    has_ended: bool,
    received_bytes: u64,
    decompressed_bytes: u64,
    bytes_max: u64,
    /// Time that the client has for each piece.
    timeout: Duration,
}

impl UploadBody {
    /// # Errors
    /// 415 for an unknown encoding, 413 if the body announces more bytes than it may have.
    pub(in crate::http) fn new(
        headers: &HeaderMap,
        body: Body,
        config: &ServerConfig,
    ) -> Result<UploadBody, Failure> {
        let bytes_max = config.ingest.body_bytes;
        let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if announced.and_then(|length| length.parse::<u64>().ok()) > Some(bytes_max) {
            return Err(too_large(bytes_max).into());
        }
        Ok(UploadBody {
            pieces: body.into_data_stream(),
            decompressor: Decompressor::of(headers)?,
            has_ended: false,
            received_bytes: 0,
            decompressed_bytes: 0,
            bytes_max,
            timeout: config.limits.startup_timeout(),
        })
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
            match tokio::time::timeout(self.timeout, self.pieces.next()).await {
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
    /// body.
    ///
    /// # Errors
    /// As [`UploadBody::next`].
    pub(in crate::http) async fn gather(&mut self, text: &mut Vec<u8>) -> Result<bool, Failure> {
        let enough = text.len() + GATHER_BYTES;
        while text.len() < enough {
            match self.next().await? {
                Some(bytes) => text.extend_from_slice(&bytes),
                None => return Ok(true),
            }
        }
        Ok(false)
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

fn too_slow() -> Failure {
    let message = "the body did not arrive in time";
    Failure::new(StatusCode::REQUEST_TIMEOUT, Error::new(SqlState::CONNECTION_FAILURE, message))
}

fn broken(reason: &str) -> Failure {
    let error =
        Error::new(SqlState::CONNECTION_FAILURE, format!("the body did not arrive: {reason}"));
    Failure::new(StatusCode::BAD_REQUEST, error)
}
