//! What is large: statements of a megabyte, tables of a thousand columns.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use tonic::Code;

use crate::large_inputs::{COLUMNS, create_wide, list, row};
use crate::support::{client, codes, fetch, lines, query, refusal, rows, server, update};

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_a_megabyte_are_taken() {
    let server = server().await;
    let mut client = client(&server).await;
    update(&mut client, "CREATE TABLE large (id bigint PRIMARY KEY, name text)").await;
    let (given, values) = list(|number| format!("({number}, '{number:0>100}')"));
    let insert = format!("INSERT INTO large VALUES {values}");
    assert_eq!(update(&mut client, &insert).await, given as i64);
    let told = "SELECT count(*), min(id), max(id), sum(length(name)) FROM large";
    let expected = format!("{given}|0|{}|{}", given - 1, given * 100);
    assert_eq!(rows(&mut client, told).await, [expected]);
    // About half of these names are there.
    let (_, names) = list(|number| format!("'{:0>100}'", number * 2));
    let select = format!("SELECT count(*), max(id) FROM large WHERE name IN ({names})");
    let found = given.div_ceil(2);
    let expected = [format!("{found}|{}", (found - 1) * 2)];
    assert_eq!(rows(&mut client, &select).await, expected);
    let mut prepared = client.prepare(select, None).await.unwrap();
    let info = prepared.execute().await.unwrap();
    assert_eq!(lines(&fetch(&mut client, info).await.unwrap()), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_columns_are_filled_and_read() {
    let server = server().await;
    let mut client = client(&server).await;
    assert_eq!(update(&mut client, &create_wide()).await, 0);
    let literal = |(column, value): (usize, String)| match column % 2 {
        1 => format!("'{value}'"),
        _ => value,
    };
    let literals: Vec<String> = row(1).into_iter().enumerate().map(literal).collect();
    let insert = format!("INSERT INTO wide VALUES ({})", literals.join(", "));
    assert_eq!(update(&mut client, &insert).await, 1);
    let places: Vec<String> = (1..=COLUMNS).map(|number| format!("${number}")).collect();
    let insert = format!("INSERT INTO wide VALUES ({})", places.join(", "));
    let mut prepared = client.prepare(insert, None).await.unwrap();
    assert_eq!(prepared.parameter_schema().unwrap().fields().len(), COLUMNS);
    let text = |value: String| -> ArrayRef { Arc::new(StringArray::from(vec![value])) };
    let values = places.iter().zip(row(2).into_iter().map(text));
    prepared.set_parameters(RecordBatch::try_from_iter(values).unwrap()).unwrap();
    assert_eq!(prepared.execute_update().await.unwrap(), 1);
    let batches = query(&mut client, "SELECT * FROM wide ORDER BY id").await.unwrap();
    assert_eq!(batches[0].num_columns(), COLUMNS);
    assert_eq!(lines(&batches), [row(1).join("|"), row(2).join("|")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_wide_is_refused_and_the_client_goes_on() {
    let server = server().await;
    let mut client = client(&server).await;
    assert_eq!(update(&mut client, &create_wide()).await, 0);
    let columns: Vec<String> = (0..1_601).map(|number| format!("c{number} int")).collect();
    let create = format!("CREATE TABLE wider ({})", columns.join(", "));
    let status = refusal(client.execute_update(create, None).await.unwrap_err());
    assert_eq!(codes(&status), (Code::ResourceExhausted, "54011".to_owned()));
    assert!(status.message().starts_with("tables can have at most 1600 columns"), "{status:?}");
    let twice = "SELECT * FROM wide AS a JOIN wide AS b ON a.id = b.id";
    let status = refusal(query(&mut client, twice).await.unwrap_err());
    assert_eq!(codes(&status), (Code::ResourceExhausted, "54011".to_owned()));
    let told = "target lists can have at most 1664 entries";
    assert!(status.message().starts_with(told), "{status:?}");
    assert_eq!(rows(&mut client, "SELECT count(*) FROM wide").await, ["0"]);
}
