//! Rules for the graph of crates: arrows point one way, and nothing is there twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Violation;

/// A crate of ours and what it must not reach, itself or through others (tests aside).
struct Arrow {
    from: &'static str,
    /// A name stands for itself and for everything that starts with it and a dash.
    never: &'static [&'static str],
    except: &'static [&'static str],
    why: &'static str,
}

const ARROWS: &[Arrow] = &[
    Arrow {
        from: "thalweg-types",
        never: &["thalweg", "arrow", "datafusion", "tokio"],
        except: &[],
        why: "the shared vocabulary stands on nothing",
    },
    Arrow {
        from: "thalweg-env",
        never: &["thalweg", "arrow", "datafusion", "tokio"],
        except: &["thalweg-types"],
        why: "it is the ground that simulation replaces",
    },
    Arrow {
        from: "thalweg-runtime",
        never: &["thalweg", "arrow", "datafusion", "tonic"],
        except: &["thalweg-types", "thalweg-env"],
        why: "it is the asynchronous half of the ground that simulation replaces",
    },
    Arrow {
        from: "thalweg-log",
        never: &["thalweg", "arrow", "datafusion", "tokio", "tonic"],
        except: &["thalweg-types", "thalweg-env"],
        why: "the log moves bytes, whatever they mean",
    },
    Arrow {
        from: "thalweg-columns",
        never: &["thalweg", "datafusion", "tokio"],
        except: &["thalweg-types"],
        why: "it maps the vocabularies of types and holds no values",
    },
    Arrow {
        from: "thalweg-store",
        never: &["thalweg", "datafusion", "tokio", "tonic"],
        except: &["thalweg-columns", "thalweg-types"],
        why: "the store is memory alone: no I/O, no planner, no runtime",
    },
    Arrow {
        from: "thalweg-txn",
        never: &["thalweg", "datafusion", "tokio", "tonic"],
        except: &[
            "thalweg-columns",
            "thalweg-types",
            "thalweg-env",
            "thalweg-log",
            "thalweg-store",
        ],
        why: "its stages are threads of their own and know no SQL",
    },
    Arrow {
        from: "thalweg-scan",
        never: &["thalweg", "datafusion", "tokio", "tonic"],
        except: &["thalweg-columns", "thalweg-types", "thalweg-env", "thalweg-store"],
        why: "it reads chunks on threads of its own and knows no plans",
    },
    Arrow {
        from: "thalweg-values",
        never: &["thalweg", "tonic"],
        except: &["thalweg-columns", "thalweg-types", "thalweg-env", "thalweg-formats"],
        why: "functions and statements stand on it",
    },
    Arrow {
        from: "thalweg-functions",
        never: &["thalweg", "tonic"],
        except: &[
            "thalweg-columns",
            "thalweg-types",
            "thalweg-env",
            "thalweg-formats",
            "thalweg-values",
        ],
        why: "a function knows its arguments, not the statement around it",
    },
    Arrow {
        from: "thalweg-dialect",
        never: &["thalweg", "tonic"],
        except: &[
            "thalweg-columns",
            "thalweg-types",
            "thalweg-env",
            "thalweg-features",
            "thalweg-formats",
            "thalweg-values",
            "thalweg-functions",
        ],
        why: "it knows the language and how values are written, not the tables",
    },
    Arrow {
        from: "thalweg-execution",
        never: &["thalweg", "tonic"],
        except: &[
            "thalweg-columns",
            "thalweg-types",
            "thalweg-env",
            "thalweg-runtime",
            "thalweg-log",
            "thalweg-formats",
            "thalweg-store",
            "thalweg-scan",
            "thalweg-txn",
            "thalweg-values",
            "thalweg-functions",
            "thalweg-dialect",
            "thalweg-features",
        ],
        why: "it runs plans and knows no session, no statement and no server",
    },
    Arrow {
        from: "thalweg-formats",
        never: &["thalweg", "datafusion", "tonic"],
        except: &["thalweg-columns", "thalweg-types", "thalweg-env"],
        why: "it knows files, not the tables",
    },
    Arrow {
        from: "thalweg-cluster",
        never: &["thalweg", "arrow", "datafusion"],
        except: &["thalweg-types", "thalweg-env", "thalweg-protocol", "thalweg-runtime"],
        why: "what travels between nodes is bytes, whatever they mean",
    },
    Arrow {
        from: "thalweg-sim",
        never: &["thalweg", "datafusion", "tokio", "tonic"],
        except: &[
            "thalweg-columns",
            "thalweg-types",
            "thalweg-env",
            "thalweg-log",
            "thalweg-store",
            "thalweg-txn",
        ],
        why: "what it simulates has no sockets and knows no SQL",
    },
    Arrow {
        from: "thalweg-distributed",
        never: &["thalweg-server", "thalweg-bench"],
        except: &[],
        why: "it carries plans and rows, whoever asked for them",
    },
    Arrow {
        from: "thalweg",
        never: &["thalweg-server", "thalweg-bench", "tonic", "axum", "tpchgen"],
        except: &[],
        why: "a program that embeds the database needs no server",
    },
    Arrow {
        from: "thalweg-query",
        never: &["tonic"],
        except: &[],
        why: "how rows travel between machines lies behind a seam",
    },
];

/// The only crates that may depend on a crate.
const USED_BY: &[(&str, &[&str])] =
    &[("thalweg-bench", &["thalweg-program"]), ("thalweg-sim", &[]), ("xtask", &[])];

/// The lock file may have one version of each of these: two versions would not understand each
/// other's types.
const ONE_VERSION: &[&str] =
    &["arrow", "datafusion", "object_store", "parquet", "prost", "sqlparser", "tonic"];

/// Checks the crate graph and duplicates in `Cargo.lock`. Fails if these cannot be read.
pub fn check(root: &Path) -> Result<Vec<Violation>, String> {
    let graph = Graph::read(root)?;
    let lock = root.join("Cargo.lock");
    let lock = std::fs::read_to_string(lock).map_err(|error| format!("Cargo.lock: {error}"))?;
    let mut violations: Vec<Violation> =
        ARROWS.iter().flat_map(|arrow| graph.follow(arrow)).collect();
    violations.extend(graph.users());
    violations.extend(duplicates(&lock));
    Ok(violations)
}

/// The workspace as `cargo metadata` describes it.
struct Graph {
    /// Package id to name.
    names: BTreeMap<String, String>,
    /// Package id to the ids that it needs to be built, without those of its tests.
    needs: BTreeMap<String, Vec<String>>,
    /// Name of a crate of ours to its manifest's path from the root.
    members: BTreeMap<String, String>,
}

impl Graph {
    fn read(root: &Path) -> Result<Graph, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--locked"])
            .current_dir(root)
            .output()
            .map_err(|error| format!("cargo metadata did not start: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("cargo metadata is not JSON: {error}"))?;
        Ok(Graph::from(&metadata))
    }

    fn from(metadata: &Value) -> Graph {
        let root = text(&metadata["workspace_root"]);
        let ours: BTreeSet<String> = list(&metadata["workspace_members"]).map(text).collect();
        let mut graph =
            Graph { names: BTreeMap::new(), needs: BTreeMap::new(), members: BTreeMap::new() };
        for package in list(&metadata["packages"]) {
            let (id, name) = (text(&package["id"]), text(&package["name"]));
            if ours.contains(&id) {
                let manifest = text(&package["manifest_path"]);
                let manifest = manifest.trim_start_matches(&root).trim_start_matches('/');
                graph.members.insert(name.clone(), manifest.to_owned());
            }
            graph.names.insert(id, name);
        }
        for node in list(&metadata["resolve"]["nodes"]) {
            let built = |edge: &&Value| list(&edge["dep_kinds"]).any(|kind| kind["kind"] != "dev");
            let needs = list(&node["deps"]).filter(built).map(|edge| text(&edge["pkg"])).collect();
            graph.needs.insert(text(&node["id"]), needs);
        }
        graph
    }

    fn id_of(&self, name: &str) -> Option<&String> {
        self.names.iter().find(|(_, known)| *known == name).map(|(id, _)| id)
    }

    /// The crates that an arrow's rule forbids and that its crate reaches.
    fn follow(&self, arrow: &Arrow) -> Vec<Violation> {
        let Some(start) = self.id_of(arrow.from) else {
            let message = format!("the rule names {}, which is no crate", arrow.from);
            return vec![Violation::new("Cargo.toml", 1, message)];
        };
        let mut violations = Vec::new();
        let mut seen = BTreeSet::from([start]);
        let mut open = vec![(start, arrow.from.to_owned())];
        while let Some((id, way)) = open.pop() {
            for next in &self.needs[id] {
                if !seen.insert(next) {
                    continue;
                }
                let name = &self.names[next];
                let way = format!("{way} → {name}");
                if arrow.forbids(name) {
                    let message = format!("{way}: must not be, since {}", arrow.why);
                    violations.push(Violation::new(&self.members[arrow.from], 1, message));
                } else {
                    open.push((next, way));
                }
            }
        }
        violations
    }

    /// The crates of ours that depend on one that is not for them.
    fn users(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (name, manifest) in &self.members {
            let id = self.id_of(name).expect("every member has an id");
            let needs = self.needs[id].iter().map(|id| self.names[id].as_str());
            for need in needs {
                for (_, users) in USED_BY.iter().filter(|(used, _)| *used == need) {
                    if !users.contains(&name.as_str()) {
                        let message = format!("{name} must not depend on {need}");
                        violations.push(Violation::new(manifest, 1, message));
                    }
                }
            }
        }
        violations
    }
}

impl Arrow {
    fn forbids(&self, name: &str) -> bool {
        let within = |family: &str| {
            name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.never.iter().any(|family| within(family)) && !self.except.contains(&name)
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn duplicates(lock: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for name in ONE_VERSION {
        let entry = format!("name = \"{name}\"");
        let lines = lock.lines().zip(1..).filter(|(line, _)| *line == entry);
        for (_, number) in lines.skip(1) {
            let message =
                format!("a second version of {name}: cargo tree -d shows who asks for it");
            violations.push(Violation::new("Cargo.lock", number, message));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `edges` are pairs of crates; a third part is the kind of the dependency.
    fn graph(edges: &[(&str, &str, Option<&str>)]) -> Graph {
        let names: BTreeSet<&str> = edges.iter().flat_map(|(from, to, _)| [*from, *to]).collect();
        let packages: Vec<Value> = names
            .iter()
            .map(|name| (name, format!("/w/{name}")))
            .map(|(name, path)| json!({ "id": name, "name": name, "manifest_path": path }))
            .collect();
        let needs = |name: &str| -> Vec<Value> {
            let edges = edges.iter().filter(|(from, _, _)| *from == name);
            edges.map(|(_, to, kind)| json!({ "pkg": to, "dep_kinds": [{"kind": kind}] })).collect()
        };
        let nodes: Vec<Value> =
            names.iter().map(|name| json!({ "id": name, "deps": needs(name) })).collect();
        Graph::from(&json!({
            "workspace_root": "/w",
            "workspace_members": names,
            "packages": packages,
            "resolve": { "nodes": nodes },
        }))
    }

    #[test]
    fn an_arrow_is_followed_through_other_crates() {
        let store = ARROWS.iter().find(|arrow| arrow.from == "thalweg-store").expect("listed");
        let reached = graph(&[
            ("thalweg-store", "thalweg-types", None),
            ("thalweg-store", "helper", None),
            ("helper", "datafusion-common", None),
            ("thalweg-store", "tokio", Some("dev")),
        ])
        .follow(store);
        let messages: Vec<String> = reached.iter().map(Violation::to_string).collect();
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].starts_with(
            "thalweg-store:1: thalweg-store → helper → datafusion-common: must not be"
        ));
    }

    #[test]
    fn only_the_program_uses_the_benchmarks() {
        let graph = graph(&[
            ("thalweg-program", "thalweg-bench", None),
            ("thalweg-query", "thalweg-bench", None),
        ]);
        let messages: Vec<String> = graph.users().iter().map(Violation::to_string).collect();
        assert_eq!(messages, ["thalweg-query:1: thalweg-query must not depend on thalweg-bench"]);
    }

    #[test]
    fn a_second_version_is_found_in_the_lock_file() {
        let lock = "name = \"arrow\"\nversion = \"1\"\nname = \"arrow-ipc\"\nname = \"arrow\"\n";
        let found = duplicates(lock);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("Cargo.lock:4: a second version of arrow"));
    }
}
