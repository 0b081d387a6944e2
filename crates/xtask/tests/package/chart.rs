//! The Helm chart: linted, and rendered for several values.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use saphyr::{LoadableYamlNode as _, Yaml};

use crate::machine::{package, root, run, skip, tool};

/// The version of Kubernetes that templates are rendered for.
const KUBERNETES: &str = "1.31.0";

const LARGE: &[&str] = &[
    "gateways.replicas=3",
    "workers.logical=2",
    "antiAffinity=required",
    "tlsSecret=clients",
    "cluster.existingSecret=nodes",
    "auth.existingSecret=mine",
    "metrics.serviceMonitor.enabled=true",
];

fn helm() -> Option<PathBuf> {
    let found = tool("helm");
    if found.is_none() {
        skip("the chart", "this machine has no helm (docs/install.md says how to get it)");
    }
    found
}

/// The objects that the chart makes of values, as text that was parsed.
fn rendered(helm: &Path, chart: &Path, values: &[&str]) -> String {
    let mut command = Command::new(helm);
    command.args(["template", "db", "--kube-version", KUBERNETES, "--namespace", "data"]);
    for value in values {
        command.args(["--set", value]);
    }
    run(command.arg(chart))
}

fn names(objects: &[Yaml<'_>]) -> BTreeSet<String> {
    let text = |node: &Yaml<'_>| node.as_str().unwrap().to_owned();
    let objects = objects.iter().filter(|object| !object.is_null());
    objects
        .map(|object| format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"])))
        .collect()
}

fn expected(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn the_chart_passes_the_linter() {
    let Some(helm) = helm() else { return };
    let out = tempfile::tempdir().unwrap();
    let chart = package(&root(), "chart", "0.0.1", out.path());
    let mut command = Command::new(helm);
    command.args(["lint", "--strict", "--kube-version", KUBERNETES]).arg(chart);
    let report = run(&mut command);
    assert!(report.contains("0 chart(s) failed"), "{report}");
}

#[test]
fn the_chart_renders_gateways_and_workers() {
    let Some(helm) = helm() else { return };
    let out = tempfile::tempdir().unwrap();
    let chart = package(&root(), "chart", "0.0.1", out.path());
    let text = rendered(&helm, &chart, &[]);
    let objects = Yaml::load_from_str(&text).unwrap();
    let small = [
        "ConfigMap db-thalweg",
        "PodDisruptionBudget db-thalweg-gateways",
        "PodDisruptionBudget db-thalweg-workers",
        "Secret db-thalweg-cluster",
        "Secret db-thalweg-password",
        "Service db-thalweg",
        "Service db-thalweg-first",
        "Service db-thalweg-gateways",
        "Service db-thalweg-workers",
        "StatefulSet db-thalweg-gateway",
        "StatefulSet db-thalweg-worker",
    ];
    assert_eq!(names(&objects), expected(&small));
    for set in objects.iter().filter(|object| is_set(object)) {
        check_pod(&set["spec"]["template"]["spec"], "preferred");
    }
    assert!(text.contains("image: thalweg:0.0.1"), "the tag is the version of the chart");

    let text = rendered(&helm, &chart, LARGE);
    let objects = Yaml::load_from_str(&text).unwrap();
    let without = ["Secret db-thalweg-cluster", "Secret db-thalweg-password"];
    let kept = small.into_iter().filter(|name| !without.contains(name));
    let added = ["ServiceMonitor db-thalweg", "StatefulSet db-thalweg-gateway-further"];
    let large: Vec<&str> = kept.chain(added).collect();
    assert_eq!(names(&objects), expected(&large));
    for set in objects.iter().filter(|object| is_set(object)) {
        check_pod(&set["spec"]["template"]["spec"], "required");
    }
    assert!(text.contains("--expect-workers=6"), "three processes of two workers each");
    assert!(text.contains("--join=db-thalweg-first.data.svc:7473"), "further gateways join");
}

fn is_set(object: &Yaml<'_>) -> bool {
    !object.is_null() && object["kind"].as_str() == Some("StatefulSet")
}

/// Checks that a pod is spread over zones, is probed, drains, and runs without rights.
fn check_pod(pod: &Yaml<'_>, spread: &str) {
    let rule = format!("{spread}DuringSchedulingIgnoredDuringExecution");
    let rule = &pod["affinity"]["podAntiAffinity"][rule.as_str()][0];
    let term = if spread == "required" { rule } else { &rule["podAffinityTerm"] };
    assert_eq!(term["topologyKey"].as_str(), Some("topology.kubernetes.io/zone"));
    assert_eq!(pod["securityContext"]["runAsNonRoot"].as_bool(), Some(true));
    // Five seconds before the signal, thirty for statements, thirty for the database.
    assert_eq!(pod["terminationGracePeriodSeconds"].as_integer(), Some(65));
    let container = &pod["containers"][0];
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().unwrap();
        assert!(path.starts_with("/health/"), "{probe}: {path}");
    }
    let security = &container["securityContext"];
    assert_eq!(security["readOnlyRootFilesystem"].as_bool(), Some(true));
    assert_eq!(security["allowPrivilegeEscalation"].as_bool(), Some(false));
    let hook = &container["lifecycle"]["preStop"]["exec"]["command"][3];
    assert_eq!(hook.as_str(), Some("SELECT pg_sleep(5)"));
}

#[test]
fn a_password_that_would_end_its_literal_is_refused() {
    let Some(helm) = helm() else { return };
    let chart = root().join("packaging/chart/thalweg");
    let mut command = Command::new(helm);
    command.args(["template", "db", "--kube-version", KUBERNETES]).arg(chart);
    let output = command.args(["--set", "auth.password=it's"]).output().unwrap();
    assert!(!output.status.success());
}
