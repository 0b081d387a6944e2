//! Documents say nothing that does not work.

mod monitoring;
mod tour;

use crate::run::thalweg;

const OPERATING: &str = include_str!("../../../../docs/operating.md");
const DEFAULTS: [&str; 2] = ["limits.", "database."];

/// A fenced block of a document.
struct Block<'a> {
    /// The heading of the second level above it.
    part: &'a str,
    /// The words behind the opening fence.
    info: &'a str,
    /// The number of the line of its opening fence.
    line: usize,
    text: String,
}

fn blocks(document: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut part = "";
    let mut lines = document.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        part = line.strip_prefix("## ").unwrap_or(part);
        let Some(info) = line.strip_prefix("```") else { continue };
        let within = lines.by_ref().map(|(line, _)| line).take_while(|line| *line != "```");
        let text = within.collect::<Vec<_>>().join("\n");
        blocks.push(Block { part, info, line: number, text });
    }
    blocks
}

#[test]
fn statements_of_operating_run() {
    let blocks = blocks(OPERATING);
    let statements = blocks.iter().filter(|block| block.info == "sql");
    let statements: Vec<&str> = statements.map(|block| block.text.as_str()).collect();
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
