//! A collector of spans, and what it is told.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use parking_lot::Mutex;
use tonic::{Request, Response, Status};

use super::*;

#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Begins to collect; returns where.
    async fn serve(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        let service = TraceServiceServer::new(self.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(incoming));
        format!("http://{address}")
    }

    /// Name, text and SQLSTATE of each span.
    fn told(&self) -> Vec<(String, String, Option<String>)> {
        let requests = self.0.lock();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        let spans = resources.flat_map(|of| &of.scope_spans).flat_map(|scope| &scope.spans);
        let spans = spans.map(|span| {
            let text = attribute(&span.attributes, "db.query.text").unwrap();
            let state = attribute(&span.attributes, "db.response.status_code");
            (span.name.clone(), text, state)
        });
        spans.collect()
    }
}

fn attribute(attributes: &[KeyValue], name: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == name)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        other => panic!("{name} is {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_are_told_without_passwords_when_a_server_ends() {
    let collector = Collector::default();
    let mut config = crate::config::ServerConfig::default();
    config.otlp.endpoint = Some(collector.serve().await);
    config.listen.grpc_port = 0;
    config.listen.postgres_port = 0;
    config.listen.http_port = 0;
    let database = thalweg_query::Database::in_memory().unwrap();
    let server = crate::Server::start(config, database).await.unwrap();
    let address = server.addresses().postgres;
    let options = format!("host={} port={} user=thalweg", address.ip(), address.port());
    let (client, connection) =
        tokio_postgres::connect(&options, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.simple_query("SELECT 1").await.unwrap();
    client.simple_query("CREATE ROLE eve PASSWORD 'secret'").await.unwrap();
    client.simple_query("SELECT 1 / 0").await.unwrap_err();
    drop(client);
    server.shut_down().await;
    let told = collector.told();
    let text = |at: usize| told[at].1.as_str();
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!((text(0), text(2)), ("SELECT 1", "SELECT 1 / 0"));
    assert!(text(1).starts_with("CREATE ROLE eve") && !text(1).contains("secret"), "{told:?}");
    let states: Vec<_> = told.iter().map(|(_, _, state)| state.as_deref()).collect();
    assert_eq!(states, [None, None, Some("22012")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_is_dropped_was_cancelled() {
    let collector = Collector::default();
    let spans = Spans::to(&collector.serve().await).unwrap();
    drop(spans.statement(FrontEnd::Http, StatementKind::Select, "eve", "SELECT 1"));
    spans.flush().await;
    let expected = (StatementKind::Select.name().to_owned(), "SELECT 1".to_owned());
    let told = collector.told();
    assert_eq!(told, [(expected.0, expected.1, Some("57014".to_owned()))]);
}

#[tokio::test]
async fn what_is_no_address_is_refused() {
    for endpoint in ["", "localhost:4317", "https://localhost:4317", "http://", "http://a b"] {
        let refused = Spans::to(endpoint).err().unwrap_or_else(|| panic!("{endpoint} was taken"));
        assert_eq!(refused.state(), SqlState::INVALID_PARAMETER_VALUE);
    }
}
