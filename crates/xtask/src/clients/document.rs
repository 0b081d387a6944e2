//! The examples of documents: code blocks whose first line names, behind the language, the client
//! that they are for. They are run as they stand there.

use std::path::Path;

/// The documents that have examples.
const DOCUMENTS: [&str; 3] = ["docs/clients.md", "docs/records.md", "docs/http.md"];

/// A block of code.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    pub document: &'static str,
    /// The line of the document at which it begins.
    pub line: usize,
    pub text: String,
}

/// The examples for one client.
pub fn blocks(root: &Path, client: &str) -> Vec<Block> {
    let blocks = DOCUMENTS.map(|document| {
        // A document that is not there has no examples; links to it fail in `tidy`.
        let text = std::fs::read_to_string(root.join(document)).unwrap_or_default();
        blocks_of(document, &text, client)
    });
    blocks.into_iter().flatten().collect()
}

fn blocks_of(document: &'static str, text: &str, client: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let within = lines.by_ref().map(|(line, _)| line).take_while(|line| *line != "```");
        let text: String = within.flat_map(|line| [line, "\n"]).collect();
        if info.split_whitespace().nth(1) == Some(client) {
            blocks.push(Block { document, line: number, text });
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_found_by_their_client() {
        let text = "Text\n```python psycopg\nimport psycopg\n\nprint(1)\n```\n```sh\nls\n```\n\
            ```python asyncpg\nimport asyncpg\n```\n";
        let text_of = |client| {
            let blocks = blocks_of("docs/clients.md", text, client);
            blocks.into_iter().map(|block| (block.line, block.text)).collect::<Vec<_>>()
        };
        assert_eq!(text_of("psycopg"), [(2, "import psycopg\n\nprint(1)\n".to_owned())]);
        assert_eq!(text_of("asyncpg"), [(10, "import asyncpg\n".to_owned())]);
        assert!(text_of("ls").is_empty());
    }
}
