//! Completion of input: keywords, relations, columns, functions, commands.

use crate::shell::help;
use crate::shell::lexer::{Lexer, Token, TokenKind};
use crate::shell::names::{Names, Relation};

/// Words that precede a relation.
const BEFORE_RELATION: &[&str] =
    &["from", "join", "into", "update", "table", "view", "truncate", "copy", "describe", "analyze"];

/// The position from which the text is replaced, and the replacements, best first.
///
/// `text` is the statement up to the cursor; `after` is the rest, where a table may be named.
pub fn candidates(text: &str, after: &str, names: &Names) -> (usize, Vec<String>) {
    if let Some(command) = text.trim_start().strip_prefix('\\') {
        return command_candidates(text, command, names);
    }
    let tokens: Vec<Token> = Lexer::tokens(text).filter(Token::is_significant).collect();
    let start = match tokens.last() {
        Some(last) if last.range.end == text.len() => match last.kind {
            TokenKind::Word => last.range.start,
            TokenKind::Symbol => text.len(),
            _ => return (text.len(), Vec::new()),
        },
        _ => text.len(),
    };
    let typed = &text[start..];
    let before: Vec<&str> = tokens
        .iter()
        .filter(|token| token.range.end <= start)
        .map(|token| &text[token.range.clone()])
        .collect();

    let mut found = Vec::new();
    if let [.., qualifier, "."] = before.as_slice() {
        push_qualified(&mut found, qualifier, text, after, names);
        keep_matching(&mut found, typed);
        return (start, found);
    }
    let expects_relation =
        before.last().is_some_and(|word| BEFORE_RELATION.contains(&word.to_lowercase().as_str()));
    if expects_relation {
        push_relations(&mut found, names);
        keep_matching(&mut found, typed);
        return (start, found);
    }
    if typed.is_empty() && before.is_empty() {
        return (start, Vec::new());
    }
    for relation in in_play(text, after, names) {
        found.extend(relation.columns.iter().map(|column| quoted(column)));
    }
    push_relations(&mut found, names);
    keep_matching(&mut found, typed);
    if !typed.is_empty() {
        let is_upper = typed.chars().any(char::is_uppercase);
        let words = help::KEYWORDS.iter().map(|word| in_case(word, is_upper));
        let functions = help::FUNCTIONS.iter().map(|name| format!("{name}("));
        let mut rest: Vec<String> = words.chain(functions).collect();
        keep_matching(&mut rest, typed);
        found.extend(rest);
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|candidate| seen.insert(candidate.clone()));
    (start, found)
}

fn command_candidates(text: &str, command: &str, names: &Names) -> (usize, Vec<String>) {
    let Some(space) = command.find(char::is_whitespace) else {
        let start = text.len() - command.len() - 1;
        let typed = &text[start..];
        let known = help::command_names().filter(|name| name.starts_with(typed));
        return (start, known.map(str::to_owned).collect());
    };
    let typed = command[space..].trim_start();
    let mut found = Vec::new();
    match &command[..space] {
        "d" | "dt" | "dv" => push_relations(&mut found, names),
        "format" => found.extend(["table", "csv", "json", "arrow", "parquet"].map(str::to_owned)),
        "x" => found.extend(["on", "off", "auto"].map(str::to_owned)),
        "timing" => found.extend(["on", "off"].map(str::to_owned)),
        "pset" => found.extend(
            ["border", "expanded", "footer", "format", "null", "timeout", "timing"]
                .map(str::to_owned),
        ),
        _ => {}
    }
    keep_matching(&mut found, typed);
    (text.len() - typed.len(), found)
}

/// Adds the names that may follow a dot: the columns of a relation or an alias, or the relations of
/// a schema.
fn push_qualified(
    found: &mut Vec<String>,
    qualifier: &str,
    text: &str,
    after: &str,
    names: &Names,
) {
    let target = aliased(qualifier, text, after).unwrap_or_else(|| qualifier.to_owned());
    for relation in &names.relations {
        if same_name(&relation.name, &target) {
            found.extend(relation.columns.iter().map(|column| quoted(column)));
        }
        if same_name(&relation.schema, qualifier) {
            found.push(quoted(&relation.name));
        }
    }
}

fn push_relations(found: &mut Vec<String>, names: &Names) {
    found.extend(names.relations.iter().filter(is_own).map(|relation| quoted(&relation.name)));
    let mut schemas: Vec<String> =
        names.relations.iter().map(|relation| format!("{}.", quoted(&relation.schema))).collect();
    schemas.dedup();
    found.extend(schemas);
}

/// The relations whose names occur in the statement. If there are none, returns all of the user's
/// relations, because a select list is typed before its relations.
fn in_play<'a>(text: &str, after: &str, names: &'a Names) -> Vec<&'a Relation> {
    let words = words(text, after);
    let occurs = |relation: &&Relation| words.iter().any(|word| same_name(&relation.name, word));
    let mentioned: Vec<&Relation> = names.relations.iter().filter(occurs).collect();
    if mentioned.is_empty() { names.relations.iter().filter(is_own).collect() } else { mentioned }
}

fn is_own(relation: &&Relation) -> bool {
    relation.schema != "information_schema"
}

/// The relation that `alias` stands for: in `flights AS f` and `flights f`, `f` is `flights`.
fn aliased(alias: &str, text: &str, after: &str) -> Option<String> {
    let words = words(text, after);
    let introduces =
        |word: &str| BEFORE_RELATION.contains(&word.to_lowercase().as_str()) || word == ",";
    (2..words.len()).find_map(|at| {
        let has_as = words[at - 1].eq_ignore_ascii_case("as");
        let relation = at - 1 - usize::from(has_as);
        let is_alias = relation > 0
            && words[at].eq_ignore_ascii_case(alias)
            && introduces(&words[relation - 1]);
        is_alias.then(|| words[relation].clone())
    })
}

fn words(text: &str, after: &str) -> Vec<String> {
    let whole = format!("{text}{after}");
    let significant = Lexer::tokens(&whole).filter(Token::is_significant);
    significant.map(|token| whole[token.range].to_owned()).collect()
}

/// True if a name as it was typed denotes the name in the catalog.
fn same_name(known: &str, typed: &str) -> bool {
    match typed.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\"") == known,
        None => typed.to_lowercase() == known,
    }
}

/// The name as it must be typed.
fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !help::RESERVED.contains(&name);
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn keep_matching(found: &mut Vec<String>, typed: &str) {
    let typed = typed.to_lowercase();
    found.retain(|candidate| {
        let lower = candidate.to_lowercase();
        lower.starts_with(&typed) || lower.strip_prefix('"').is_some_and(|l| l.starts_with(&typed))
    });
}

fn in_case(keyword: &str, is_upper: bool) -> String {
    if is_upper { keyword.to_owned() } else { keyword.to_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let relation = |schema: &str, name: &str, columns: &[&str]| Relation {
            schema: schema.to_owned(),
            name: name.to_owned(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        };
        Names {
            relations: vec![
                relation("public", "flights", &["carrier", "dep_delay", "Odd Name"]),
                relation("public", "airlines", &["carrier", "name"]),
                relation("information_schema", "tables", &["table_name"]),
            ],
        }
    }

    fn complete(text: &str) -> Vec<String> {
        candidates(text, "", &names()).1
    }

    #[test]
    fn relations_follow_from() {
        assert_eq!(complete("select * from fl"), ["flights"]);
        assert_eq!(
            complete("select * FROM "),
            ["flights", "airlines", "public.", "information_schema."]
        );
        assert_eq!(complete("select * from public.a"), ["airlines"]);
        assert_eq!(complete("\\d air"), ["airlines"]);
    }

    #[test]
    fn columns_come_from_the_relations_of_the_statement() {
        assert_eq!(complete("select f.d from flights f where f.dep"), ["dep_delay"]);
        let (start, found) = candidates("select f.ca", " from flights as f", &names());
        assert_eq!((start, found), (9, vec!["carrier".to_owned()]));
        assert_eq!(complete("select * from flights where dep_"), ["dep_delay"]);
        assert_eq!(complete("select * from flights where od"), ["\"Odd Name\""]);
        assert_eq!(complete("select dep"), ["dep_delay"]);
    }

    #[test]
    fn keywords_keep_the_case_that_is_typed() {
        assert_eq!(complete("sel"), ["select"]);
        assert_eq!(complete("SEL"), ["SELECT"]);
        assert_eq!(complete("select date_t"), ["date_trunc("]);
        assert_eq!(complete("select 'fro"), [""; 0]);
        assert_eq!(complete(""), [""; 0]);
    }

    #[test]
    fn commands_and_their_arguments() {
        assert_eq!(complete("\\ti"), ["\\timing"]);
        assert_eq!(complete("\\timing o"), ["on", "off"]);
        assert_eq!(complete("\\format p"), ["parquet"]);
    }
}
