//! Writes objects as the SQL that would create them.

use thalweg_types::{ColumnId, ForeignKey, Index, Key, ReferentialAction, TableSchema};

use crate::temporary_objects::shown_namespace;

/// Quotes a name if it needs quotes.
pub(super) fn quoted(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let starts_well = !name.starts_with(|c: char| c.is_ascii_digit());
    if plain && starts_well && !name.is_empty() && !is_reserved(name) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// True if a word must be quoted to serve as the name of a column or table.
fn is_reserved(name: &str) -> bool {
    RESERVED.binary_search(&name).is_ok()
}

/// PostgreSQL's reserved words.
#[rustfmt::skip]
const RESERVED: [&str; 100] = [
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric",
    "authorization", "binary", "both", "case", "cast", "check", "collate", "collation", "column",
    "concurrently", "constraint", "create", "cross", "current_catalog", "current_date",
    "current_role", "current_schema", "current_time", "current_timestamp", "current_user",
    "default", "deferrable", "desc", "distinct", "do", "else", "end", "except", "false", "fetch",
    "for", "foreign", "freeze", "from", "full", "grant", "group", "having", "ilike", "in",
    "initially", "inner", "intersect", "into", "is", "isnull", "join", "lateral", "leading",
    "left", "like", "limit", "localtime", "localtimestamp", "natural", "not", "notnull", "null",
    "offset", "on", "only", "or", "order", "outer", "overlaps", "placing", "primary", "references",
    "returning", "right", "select", "session_user", "similar", "some", "symmetric", "table",
    "tablesample", "then", "to", "trailing", "true", "union", "unique", "user", "using",
    "variadic", "verbose", "when", "where", "window", "with",
];

/// Splits a qualified SQL name: `shop."Order Items"`; `None` if the text is no name.
pub(crate) fn name_parts(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let part;
        (part, rest) = match rest.strip_prefix('"') {
            Some(inside) => quoted_part(inside)?,
            None => {
                let end = rest.find(['.', '"']).unwrap_or(rest.len());
                (rest[..end].trim().to_lowercase(), &rest[end..])
            }
        };
        if part.is_empty() {
            return None;
        }
        parts.push(part);
        rest = rest.trim_start();
        if rest.is_empty() {
            return Some(parts);
        }
        rest = rest.strip_prefix('.')?.trim_start();
    }
}

/// Splits at the closing quote: the text before it, with doubled quotes made single, and the rest.
fn quoted_part(inside: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut rest = inside;
    loop {
        let end = rest.find('"')?;
        part.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(further) => {
                part.push('"');
                rest = further;
            }
            None => return Some((part, rest)),
        }
    }
}

/// `CREATE INDEX …`, `CREATE UNIQUE INDEX …`
pub(super) fn index(table: &TableSchema, index: &Index, names_namespace: bool) -> String {
    let mut name = quoted(&table.name);
    if names_namespace {
        name = format!("{}.{name}", quoted(shown_namespace(&table.namespace)));
    }
    let unique = if index.unique { "UNIQUE " } else { "" };
    let positions = table.key_positions(&index.key).into_iter().zip(&index.orders);
    let columns = positions.map(|(place, order)| {
        let column = quoted(&table.columns[place].name);
        match (order.descending, order.nulls_first) {
            (false, false) => column,
            (false, true) => format!("{column} NULLS FIRST"),
            (true, true) => format!("{column} DESC"),
            (true, false) => format!("{column} DESC NULLS LAST"),
        }
    });
    let columns: Vec<String> = columns.collect();
    let (key, columns) = (quoted(&index.key.name), columns.join(", "));
    format!("CREATE {unique}INDEX {key} ON {name} USING btree ({columns})")
}

/// `a, b`
pub(super) fn key_columns(table: &TableSchema, key: &Key) -> String {
    let positions = table.key_positions(key).into_iter();
    let names: Vec<String> = positions.map(|place| quoted(&table.columns[place].name)).collect();
    names.join(", ")
}

/// `PRIMARY KEY (a, b)`
pub(super) fn key(table: &TableSchema, key: &Key, primary: bool) -> String {
    let kind = if primary { "PRIMARY KEY" } else { "UNIQUE" };
    format!("{kind} ({})", key_columns(table, key))
}

/// `FOREIGN KEY (a) REFERENCES p(id) ON DELETE CASCADE`. `parent_name` is the referenced table's
/// name, quoted, with its namespace if that is needed.
pub(super) fn foreign_key(
    table: &TableSchema,
    key: &ForeignKey,
    parent: &TableSchema,
    parent_name: &str,
) -> String {
    let list = |table: &TableSchema, columns: &[ColumnId]| {
        let names = table.column_names(columns).into_iter().map(quoted);
        names.collect::<Vec<_>>().join(", ")
    };
    let (columns, referenced) = (list(table, &key.columns), list(parent, &key.parent_columns));
    let mut text = format!("FOREIGN KEY ({columns}) REFERENCES {parent_name}({referenced})");
    for (clause, action) in [(" ON UPDATE ", key.on_update), (" ON DELETE ", key.on_delete)] {
        if action != ReferentialAction::NoAction {
            text.push_str(clause);
            text.push_str(action_words(action));
        }
    }
    for (says, clause) in [
        (key.deferrable, " DEFERRABLE"),
        (key.initially_deferred, " INITIALLY DEFERRED"),
        (key.unvalidated, " NOT VALID"),
    ] {
        if says {
            text.push_str(clause);
        }
    }
    text
}

/// An action in SQL's words.
pub(super) fn action_words(action: ReferentialAction) -> &'static str {
    match action {
        ReferentialAction::NoAction => "NO ACTION",
        ReferentialAction::Restrict => "RESTRICT",
        ReferentialAction::Cascade => "CASCADE",
        ReferentialAction::SetNull => "SET NULL",
        ReferentialAction::SetDefault => "SET DEFAULT",
    }
}

/// True if an expression names a column: as a whole word outside of text literals.
pub(super) fn mentions(expression: &str, column: &str) -> bool {
    let mut literal = false;
    let mut word = String::new();
    for character in expression.chars().chain([' ']) {
        if character.is_alphanumeric() || character == '_' {
            word.push(character);
            continue;
        }
        if !literal && (word == column || word.to_lowercase() == column) {
            return true;
        }
        word.clear();
        literal ^= character == '\'';
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_they_must_be() {
        for (name, expected) in [
            ("plain_1", "plain_1"),
            ("Mixed", "\"Mixed\""),
            ("1st", "\"1st\""),
            ("order", "\"order\""),
            ("a\"b", "\"a\"\"b\""),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(name), expected);
        }
    }

    #[test]
    fn names_are_taken_apart() {
        let parts = |text| name_parts(text).map(|parts| parts.join("|"));
        assert_eq!(parts("Customers").as_deref(), Some("customers"));
        assert_eq!(parts("shop.\"Order \"\"Items\"").as_deref(), Some("shop|Order \"Items"));
        assert_eq!(parts(" \"a.b\" . c ").as_deref(), Some("a.b|c"));
        assert_eq!(parts("a."), None);
        assert_eq!(parts("\"a"), None);
        assert_eq!(parts(""), None);
    }

    #[test]
    fn columns_are_found_as_words() {
        assert!(mentions("balance >= 0", "balance"));
        assert!(mentions("Balance >= 0", "balance"));
        assert!(!mentions("unbalanced >= 0", "balance"));
        assert!(!mentions("kind <> 'balance'", "balance"));
    }
}
