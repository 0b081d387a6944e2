//! What gRPC's own tools ask: health and reflection.

use tokio_stream::StreamExt;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::support::*;

const FLIGHT: &str = "arrow.flight.protocol.FlightService";
const HEALTH: &str = "grpc.health.v1.Health";

#[tokio::test(flavor = "multi_thread")]
async fn health_is_told_until_the_server_ends() {
    let server = server(|_| {}).await;
    let mut health = HealthClient::new(channel(&server).await);
    let request = |service: &str| HealthCheckRequest { service: service.to_owned() };
    for service in ["", FLIGHT] {
        let answer = health.check(request(service)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    let unknown = health.check(request("nothing")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    let mut watch = health.watch(request(FLIGHT)).await.unwrap().into_inner();
    assert_eq!(watch.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
    // A session that is open keeps the server from ending at once.
    let admin = admin(&server).await;
    admin.batch_execute("BEGIN").await.unwrap();
    let ending = tokio::spawn(server.shut_down());
    assert_eq!(watch.next().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    drop((admin, watch, health));
    ending.await.unwrap();
}

async fn reflect(
    client: &mut ServerReflectionClient<tonic::transport::Channel>,
    request: MessageRequest,
) -> Result<MessageResponse, Status> {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(request) };
    let request = tokio_stream::once(request);
    let mut answers = client.server_reflection_info(request).await?.into_inner();
    let answer = answers.next().await.expect("each request is answered")?;
    Ok(answer.message_response.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn services_are_listed_and_described() {
    let server = server(|_| {}).await;
    let mut client = ServerReflectionClient::new(channel(&server).await);
    let listed = reflect(&mut client, MessageRequest::ListServices(String::new())).await.unwrap();
    let MessageResponse::ListServicesResponse(listed) = listed else { panic!("{listed:?}") };
    let mut names: Vec<String> = listed.service.into_iter().map(|service| service.name).collect();
    names.sort();
    assert!(names.iter().any(|name| name == FLIGHT), "{names:?}");
    assert!(names.iter().any(|name| name == HEALTH), "{names:?}");
    let symbol = MessageRequest::FileContainingSymbol(HEALTH.to_owned());
    let described = reflect(&mut client, symbol).await.unwrap();
    let MessageResponse::FileDescriptorResponse(files) = described else { panic!("{described:?}") };
    assert!(!files.file_descriptor_proto.is_empty());
    let unknown = MessageRequest::FileContainingSymbol("no.such.Service".to_owned());
    let refused = reflect(&mut client, unknown).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
}
