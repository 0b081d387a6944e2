//! Metrics: the names in documents, dashboards and alerts are those of a server.

use std::collections::BTreeSet;

use serde_json::Value;

use super::OPERATING;
use crate::run::thalweg;
use crate::server::Server;

const DASHBOARD: &str =
    include_str!("../../../../../examples/monitoring/grafana/dashboards/thalweg.json");
const DATA_SOURCES: &str = include_str!(
    "../../../../../examples/monitoring/grafana/provisioning/datasources/thalweg.yaml"
);
const ALERTS: &str = include_str!("../../../../../examples/monitoring/prometheus/alerts.yaml");

/// Labels that Prometheus adds.
const LABELS_OF_PROMETHEUS: [&str; 2] = ["instance", "job"];

/// The page of metrics of a server.
fn page() -> String {
    let ports = ["--postgres-port=0", "--grpc-port=0", "--http-port=0"];
    Server::start(&[&["serve"][..], &ports].concat()).get("/metrics")
}

/// The words of a text that begin as our metrics do.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("thalweg_")).collect()
}

/// The values of a key anywhere in a document.
fn values<'a>(document: &'a Value, key: &str) -> Vec<&'a str> {
    match document {
        Value::Array(items) => items.iter().flat_map(|item| values(item, key)).collect(),
        Value::Object(fields) => {
            let own = fields.get(key).and_then(Value::as_str);
            own.into_iter().chain(fields.values().flat_map(|value| values(value, key))).collect()
        }
        _ => Vec::new(),
    }
}

/// The matchers `label=~"a|b"` of a query, as the texts `label="a"`, `label="b"`.
fn matched_labels(query: &str) -> Vec<String> {
    let mut matched = Vec::new();
    for (selector, _) in query.split('{').skip(1).filter_map(|rest| rest.split_once('}')) {
        for (label, values) in selector.split("\",").filter_map(|one| one.split_once('=')) {
            let values = values.trim_start_matches('~').trim_matches('"');
            if !LABELS_OF_PROMETHEUS.contains(&label.trim()) {
                matched
                    .extend(values.split('|').map(|value| format!("{}=\"{value}\"", label.trim())));
            }
        }
    }
    matched
}

#[test]
fn dashboard_and_alerts_ask_for_metrics_that_there_are() {
    let page = page();
    let known: BTreeSet<&str> =
        page.lines().filter_map(|line| line.split([' ', '{']).next()).collect();
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let alerts = ALERTS.lines().filter(|line| line.contains("thalweg_"));
    let queries: Vec<&str> = values(&dashboard, "expr")
        .into_iter()
        .chain(values(&dashboard, "definition"))
        .chain(alerts)
        .collect();
    assert!(queries.len() > 30, "{queries:?}");
    for query in queries {
        for name in names(query) {
            assert!(known.contains(name), "{query}: no metric is called {name}\n{page}");
        }
        for label in matched_labels(query) {
            assert!(page.contains(&label), "{query}: no metric has {label}");
        }
    }
}

#[test]
fn statements_of_the_dashboard_run_and_its_data_sources_are_provisioned() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let statements = values(&dashboard, "rawSql");
    assert!(!statements.is_empty());
    for statement in statements {
        thalweg(&["-c", statement]).success();
    }
    for uid in values(&dashboard["panels"], "uid") {
        assert!(DATA_SOURCES.contains(&format!("uid: {uid}\n")), "{uid} is no data source");
    }
}

#[test]
fn operating_describes_every_metric() {
    let page = page();
    let metrics: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .filter(|name| name.starts_with("thalweg_"))
        .collect();
    let rows = OPERATING.lines().filter_map(|line| line.trim_start().strip_prefix("| `thalweg_"));
    let described: BTreeSet<String> = rows
        .filter_map(|row| row.split('|').next())
        .flat_map(|cell| {
            names(&format!("thalweg_{cell}")).into_iter().map(str::to_owned).collect::<Vec<_>>()
        })
        .filter(|name| {
            !["thalweg_tables", "thalweg_log", "thalweg_checkpoints"].contains(&name.as_str())
        })
        .collect();
    let described: BTreeSet<&str> = described.iter().map(String::as_str).collect();
    assert_eq!(metrics, described);
}

#[test]
fn labels_of_matchers_are_found() {
    let query = r#"rate(a{class=~"53|58",instance=~"$i"}[5m]) / b{reason="x"} / c"#;
    assert_eq!(matched_labels(query), [r#"class="53""#, r#"class="58""#, r#"reason="x""#]);
}
