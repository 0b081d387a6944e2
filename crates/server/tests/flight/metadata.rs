//! Questions about the database.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::DataType;
use arrow_flight::sql::{
    CommandGetDbSchemas, CommandGetImportedKeys, CommandGetPrimaryKeys, CommandGetTables,
    CommandGetXdbcTypeInfo, SqlInfo,
};
use arrow_flight::{FlightInfo, IpcMessage};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::support::{Client, client, fetch, lines, server, update};

async fn answer(client: &mut Client, info: FlightInfo) -> Vec<RecordBatch> {
    fetch(client, info).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn catalogs_schemas_and_tables_are_listed() {
    let server = server().await;
    let mut client = client(&server).await;
    update(&mut client, "CREATE SCHEMA s").await;
    update(&mut client, "CREATE TABLE s.t (n bigint, name varchar(9))").await;
    update(&mut client, "CREATE VIEW v AS SELECT 1 AS one").await;
    let info = client.get_catalogs().await.unwrap();
    assert_eq!(lines(&answer(&mut client, info).await), ["thalweg"]);
    let filter = Some("s%".to_owned());
    let request = CommandGetDbSchemas { catalog: None, db_schema_filter_pattern: filter };
    let info = client.get_db_schemas(request).await.unwrap();
    assert_eq!(lines(&answer(&mut client, info).await), ["thalweg|s"]);
    let info = client.get_table_types().await.unwrap();
    assert_eq!(lines(&answer(&mut client, info).await), ["FOREIGN TABLE", "TABLE", "VIEW"]);
    let request = CommandGetTables {
        table_types: vec!["TABLE".to_owned(), "VIEW".to_owned()],
        table_name_filter_pattern: Some("_".to_owned()),
        include_schema: false,
        ..CommandGetTables::default()
    };
    let info = client.get_tables(request.clone()).await.unwrap();
    let listed = lines(&answer(&mut client, info).await);
    assert_eq!(listed, ["thalweg|public|v|VIEW", "thalweg|s|t|TABLE"]);
    let info =
        client.get_tables(CommandGetTables { include_schema: true, ..request }).await.unwrap();
    let with_schema = answer(&mut client, info).await;
    let bytes = with_schema[0].column(4).as_binary::<i32>().value(1).to_vec();
    let schema = arrow::datatypes::Schema::try_from(IpcMessage(bytes.into())).unwrap();
    assert_eq!(schema.field(1).data_type(), &DataType::Utf8);
    let described = &schema.field(1).metadata()["ARROW:FLIGHT:SQL:TYPE_NAME"];
    assert_eq!(described, "character varying");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_listed() {
    let server = server().await;
    let mut client = client(&server).await;
    update(&mut client, "CREATE TABLE t (a int, b int, c int, PRIMARY KEY (c, a))").await;
    let request = CommandGetPrimaryKeys { catalog: None, db_schema: None, table: "t".to_owned() };
    let info = client.get_primary_keys(request).await.unwrap();
    let keys = lines(&answer(&mut client, info).await);
    assert_eq!(keys, ["thalweg|public|t|c|1|t_pkey", "thalweg|public|t|a|2|t_pkey"]);
    let request = CommandGetImportedKeys { catalog: None, db_schema: None, table: "t".to_owned() };
    let info = client.get_imported_keys(request).await.unwrap();
    assert!(lines(&answer(&mut client, info).await).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_tells_of_itself() {
    let server = server().await;
    let mut client = client(&server).await;
    let info = client.get_sql_info(vec![SqlInfo::FlightSqlServerName]).await.unwrap();
    let facts = answer(&mut client, info).await;
    let value = facts[0].column(1).as_union().value(0);
    assert_eq!(value.as_string::<i32>().value(0), "Thalweg");
    let info = client.get_sql_info(Vec::new()).await.unwrap();
    assert!(answer(&mut client, info).await[0].num_rows() > 60);
    let request = CommandGetXdbcTypeInfo { data_type: None };
    let info = client.get_xdbc_type_info(request).await.unwrap();
    let types = answer(&mut client, info).await;
    let names: Vec<_> = types[0].column(0).as_string::<i32>().iter().flatten().collect();
    assert!(names.contains(&"bigint") && names.contains(&"timestamp with time zone"), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_told() {
    const SERVING: i32 = 1;
    let server = server().await;
    let address = format!("http://{}", server.addresses().grpc);
    let channel = tonic::transport::Endpoint::from_shared(address).unwrap();
    let mut health = HealthClient::new(channel.connect().await.unwrap());
    for service in ["", "arrow.flight.protocol.FlightService"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let told = health.check(request).await.unwrap().into_inner();
        assert_eq!(told.status, SERVING, "{service:?}");
    }
}
