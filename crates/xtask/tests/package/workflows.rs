//! Workflows of continuous integration: valid YAML with the jobs that release both architectures.

use saphyr::{LoadableYamlNode as _, Yaml};

use crate::machine::root;

fn workflow(name: &str) -> String {
    std::fs::read_to_string(root().join(".github/workflows").join(name)).unwrap()
}

/// The labels of the machines on which a job runs, one for each architecture.
fn machines(job: &Yaml<'_>) -> Vec<String> {
    let list = job["strategy"]["matrix"]["include"].as_vec().unwrap();
    list.iter().map(|entry| entry["runner"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn workflows_run_on_both_architectures() {
    for (name, job) in [("ci.yml", "gate"), ("release.yml", "packages")] {
        let text = workflow(name);
        let documents = Yaml::load_from_str(&text).unwrap();
        assert_eq!(documents.len(), 1, "{name}");
        let machines = machines(&documents[0]["jobs"][job]);
        assert_eq!(machines, ["ubuntu-22.04", "ubuntu-22.04-arm"], "{name}");
    }
}

#[test]
fn steps_of_workflows_do_one_thing_each() {
    for name in ["ci.yml", "release.yml"] {
        let text = workflow(name);
        let documents = Yaml::load_from_str(&text).unwrap();
        let jobs = documents[0]["jobs"].as_mapping().unwrap();
        for (job, body) in jobs {
            assert!(body["runs-on"].as_str().is_some(), "{name}: {job:?} names no machine");
            for step in body["steps"].as_vec().unwrap() {
                let has = |key: &str| step.as_mapping_get(key).is_some();
                assert!(has("run") != has("uses"), "{name}: {job:?}: {step:?}");
            }
        }
    }
}
