//! Documents say nothing that does not work.

use crate::run::thalweg;

const OPERATING: &str = include_str!("../../../../docs/operating.md");
const DEFAULTS: [&str; 2] = ["limits.", "database."];

/// The blocks of one language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.strip_prefix("```") == Some(language) {
            blocks.push(lines.by_ref().take_while(|line| *line != "```").collect::<Vec<_>>());
        }
    }
    blocks.into_iter().map(|lines| lines.join("\n")).collect()
}

#[test]
fn statements_of_operating_run() {
    let statements = blocks(OPERATING, "sql");
    assert!(statements.len() >= 3, "{statements:?}");
    thalweg(&["sql", "-c", &statements.join("\n")]).success();
}

/// Every limit is described, and nothing is that is none.
#[test]
fn settings_of_operating_are_those_that_there_are() {
    let dumped = thalweg(&["config", "dump"]).success();
    let mut section = "";
    let mut known = Vec::new();
    for line in dumped.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some((key, _)) = line.trim_start_matches("# ").split_once(" =") {
            known.push(format!("{section}.{key}"));
        }
    }
    let described: Vec<&str> = OPERATING
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name))
        .filter(|name| DEFAULTS.iter().any(|section| name.starts_with(section)))
        .collect();
    for name in &described {
        assert!(known.iter().any(|known| known == name), "{name} is no setting");
    }
    for name in known.iter().filter(|name| name.starts_with("limits.")) {
        assert!(described.contains(&name.as_str()), "docs/operating.md does not tell {name}");
    }
}
