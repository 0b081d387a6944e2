//! Export of statements as spans to a collector that speaks OTLP over gRPC. Names follow
//! OpenTelemetry's semantic conventions for databases.
//!
//! Promises: a slow or missing collector costs a statement nothing. A separate thread sends spans
//! in batches, and spans that do not fit its queue are dropped.

use std::time::Duration;

use hyper::Uri;
use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status, TracerProvider};
use opentelemetry::{KeyValue, StringValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use thalweg_query::without_passwords;
use thalweg_types::{Error, Result, SqlState};

use super::SQL_BYTES_MAX;
use crate::connections::FrontEnd;
use crate::metrics::{StatementKind, name_of};

const SYSTEM: &str = "thalweg";
/// Maximum time that a server's end waits for a collector.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The destination of spans.
pub(super) struct Spans {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Spans {
    /// Spans for the collector at an address. No connection is made yet: an absent collector shows
    /// only when spans are sent. Must be called within a runtime.
    ///
    /// # Errors
    /// If the address is invalid.
    pub(super) fn to(endpoint: &str) -> Result<Spans> {
        check_endpoint(endpoint)?;
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint);
        let exporter = exporter.build().map_err(|error| unusable(endpoint, &error.to_string()))?;
        let resource = Resource::builder().with_service_name(SYSTEM);
        let resource = resource
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter);
        let provider = provider.with_resource(resource).build();
        let tracer = provider.tracer(SYSTEM);
        Ok(Spans { provider, tracer })
    }

    /// Starts the span of a statement.
    pub(super) fn statement(
        &self,
        front_end: FrontEnd,
        kind: StatementKind,
        user: &str,
        sql: &str,
    ) -> StatementSpan {
        let text = without_passwords(&sql[..sql.floor_char_boundary(SQL_BYTES_MAX)]);
        let attributes = [
            KeyValue::new("db.system.name", SYSTEM),
            KeyValue::new("db.operation.name", kind.name()),
            KeyValue::new("db.query.text", StringValue::from(text.into_owned())),
            KeyValue::new("db.user", StringValue::from(user.to_owned())),
            KeyValue::new("thalweg.front_end", name_of(front_end)),
        ];
        let span = SpanBuilder::from_name(kind.name())
            .with_kind(SpanKind::Server)
            .with_attributes(attributes)
            .start(&self.tracer);
        StatementSpan { span, ended: false }
    }

    /// Sends the remaining spans, with a time limit.
    pub(super) async fn flush(&self) {
        let provider = self.provider.clone();
        let flushing = tokio::task::spawn_blocking(move || provider.force_flush());
        match tokio::time::timeout(FLUSH_TIMEOUT, flushing).await {
            Ok(Ok(Ok(()))) => {}
            _ => tracing::warn!("the last spans could not be sent"),
        }
    }
}

/// # Errors
/// If spans cannot be sent to the address.
pub(crate) fn check_endpoint(endpoint: &str) -> Result<()> {
    if !endpoint.starts_with("http://") {
        return Err(unusable(endpoint, "it does not begin with http://"));
    }
    let parsed = endpoint.parse::<Uri>();
    parsed.map(drop).map_err(|error| unusable(endpoint, &error.to_string()))
}

fn unusable(endpoint: &str, why: &str) -> Error {
    let message = format!("otlp.endpoint \"{endpoint}\" cannot be used: {why}");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
        .with_hint("Give the address of a collector for gRPC, as http://localhost:4317.")
}

/// The span of a statement. If it is dropped before [`StatementSpan::end`], the statement was
/// cancelled.
pub(super) struct StatementSpan {
    span: Span,
    ended: bool,
}

impl StatementSpan {
    /// Ends the span, with the statement's error if it failed.
    pub(super) fn end(mut self, error: Option<SqlState>) {
        self.finish(error);
    }

    fn finish(&mut self, error: Option<SqlState>) {
        self.ended = true;
        if let Some(state) = error {
            self.span.set_attribute(KeyValue::new("db.response.status_code", state.0));
            self.span.set_attribute(KeyValue::new("error.type", state.0));
            self.span.set_status(Status::error(state.0));
        }
        self.span.end();
    }
}

impl Drop for StatementSpan {
    fn drop(&mut self) {
        if !self.ended {
            self.finish(Some(SqlState::QUERY_CANCELED));
        }
    }
}

#[cfg(test)]
mod tests;
