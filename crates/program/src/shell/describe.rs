//! Contents of the database: the queries behind `\d` and its relatives.

use thalweg::{Error, SqlState};

use crate::shell::lexer::{Lexer, TokenKind};
use crate::shell::{Shell, Stop};

/// The kinds of relations that a list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relations {
    All,
    Tables,
    Views,
}

const TYPE_NAME: &str = "\
    CASE WHEN character_maximum_length IS NOT NULL
              THEN data_type || '(' || CAST(character_maximum_length AS text) || ')'
         WHEN data_type = 'numeric' AND numeric_precision IS NOT NULL
              THEN 'numeric(' || CAST(numeric_precision AS text) || ','
                   || CAST(numeric_scale AS text) || ')'
         ELSE data_type END";

/// The query for `\d`, `\dt` and `\dv`. System schemas are listed only if the pattern names a
/// schema.
pub fn relations(which: Relations, pattern: Option<&str>) -> String {
    let kinds = match which {
        Relations::All => "",
        Relations::Tables => " AND table_type <> 'VIEW'",
        Relations::Views => " AND table_type = 'VIEW'",
    };
    let schemas = if pattern.is_some_and(|pattern| pattern.contains('.')) {
        ""
    } else {
        " AND table_schema NOT IN ('information_schema', 'pg_catalog')"
    };
    format!(
        "SELECT table_schema AS \"Schema\", table_name AS \"Name\",
                CASE table_type WHEN 'BASE TABLE' THEN 'table' WHEN 'VIEW' THEN 'view'
                                WHEN 'LOCAL TEMPORARY' THEN 'temporary' ELSE 'file' END AS \"Type\"
         FROM information_schema.tables WHERE true{schemas}{kinds}{}
         ORDER BY 1, 2",
        matching(pattern, "table_schema", "table_name")
    )
}

/// The query for `\dn`, which lists schemas.
pub fn namespaces(pattern: Option<&str>) -> String {
    format!(
        "SELECT schema_name AS \"Name\" FROM information_schema.schemata WHERE true{} ORDER BY 1",
        matching(pattern, "''", "schema_name")
    )
}

/// The query for `\di`.
pub fn indexes(pattern: Option<&str>) -> String {
    format!(
        "SELECT n.nspname AS \"Schema\", c.relname AS \"Name\", 'index' AS \"Type\",
                pg_get_userbyid(c.relowner) AS \"Owner\", t.relname AS \"Table\"
         FROM pg_catalog.pg_index i
         JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
         JOIN pg_catalog.pg_class t ON t.oid = i.indrelid
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname NOT IN ('information_schema', 'pg_catalog'){}
         ORDER BY 1, 2",
        matching(pattern, "n.nspname", "c.relname")
    )
}

/// The query for `\df`. The functions of the system are listed only for a pattern.
pub fn functions(pattern: Option<&str>) -> String {
    let schemas = match pattern {
        Some(_) => "",
        None => " AND n.nspname NOT IN ('information_schema', 'pg_catalog')",
    };
    format!(
        "SELECT n.nspname AS \"Schema\", p.proname AS \"Name\",
                pg_get_function_result(p.oid) AS \"Result data type\",
                pg_get_function_arguments(p.oid) AS \"Argument data types\",
                CASE p.prokind WHEN 'a' THEN 'agg' WHEN 'w' THEN 'window' WHEN 'p' THEN 'proc'
                               ELSE 'func' END AS \"Type\"
         FROM pg_catalog.pg_proc p
         JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
         WHERE true{schemas}{}
         ORDER BY 1, 2, 4",
        matching(pattern, "n.nspname", "p.proname")
    )
}

/// The query for `\du`.
pub fn roles(pattern: Option<&str>) -> String {
    format!(
        "SELECT r.rolname AS \"Role name\",
                concat_ws(', ', CASE WHEN r.rolsuper THEN 'Superuser' END,
                          CASE WHEN NOT r.rolinherit THEN 'No inheritance' END,
                          CASE WHEN r.rolcreaterole THEN 'Create role' END,
                          CASE WHEN r.rolcreatedb THEN 'Create DB' END,
                          CASE WHEN NOT r.rolcanlogin THEN 'Cannot login' END,
                          CASE WHEN r.rolreplication THEN 'Replication' END,
                          CASE WHEN r.rolbypassrls THEN 'Bypass RLS' END) AS \"Attributes\",
                ARRAY(SELECT b.rolname FROM pg_catalog.pg_auth_members m
                      JOIN pg_catalog.pg_roles b ON b.oid = m.roleid
                      WHERE m.member = r.oid ORDER BY 1) AS \"Member of\"
         FROM pg_catalog.pg_roles r
         WHERE r.rolname NOT LIKE 'pg\\_%'{}
         ORDER BY 1",
        matching(pattern, "''", "r.rolname")
    )
}

/// The query for `\drds`: defaults of settings. The pattern is for names of roles.
pub fn setting_defaults(pattern: Option<&str>) -> String {
    format!(
        "SELECT r.rolname AS \"Role\", d.datname AS \"Database\",
                array_to_string(s.setconfig, E'\\n') AS \"Settings\"
         FROM pg_catalog.pg_db_role_setting s
         LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase
         LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole
         WHERE true{}
         ORDER BY 1, 2",
        matching(pattern, "''", "r.rolname")
    )
}

impl Shell {
    pub(super) async fn list(
        &mut self,
        which: Relations,
        pattern: Option<&str>,
    ) -> Result<(), Stop> {
        let title = match which {
            Relations::All => "List of relations",
            Relations::Tables => "List of tables",
            Relations::Views => "List of views",
        };
        self.show_query(&relations(which, pattern), title).await
    }

    /// Describes columns, keys and checks of a table, or the query of a view. A pattern may match
    /// several.
    pub(super) async fn describe(&mut self, pattern: &str) -> Result<(), Stop> {
        let found = self.fetch_or_tell(&relations(Relations::All, Some(pattern))).await?;
        if found.is_empty() {
            let message = format!("did not find any relation named \"{pattern}\"");
            let error = Error::new(SqlState::UNDEFINED_TABLE, message);
            return Err(self.tell_error(&error, None, ""));
        }
        for row in found {
            let [schema, name, kind] = row.as_slice() else { unreachable!("three columns") };
            self.describe_one(schema, name, kind).await?;
        }
        Ok(())
    }

    async fn describe_one(&mut self, schema: &str, name: &str, kind: &str) -> Result<(), Stop> {
        let place = |prefix: &str| {
            format!(
                "{prefix}table_schema = {} AND {prefix}table_name = {}",
                literal(schema),
                literal(name)
            )
        };
        let columns = format!(
            "SELECT column_name AS \"Column\", {TYPE_NAME} AS \"Type\",
                    CASE is_nullable WHEN 'NO' THEN 'not null' ELSE '' END AS \"Nullable\",
                    CASE WHEN is_identity = 'YES'
                              THEN 'generated ' || lower(identity_generation) || ' as identity'
                         ELSE COALESCE(column_default, '') END AS \"Default\"
             FROM information_schema.columns WHERE {} ORDER BY ordinal_position",
            place("")
        );
        let mut title = kind.to_owned();
        title[..1].make_ascii_uppercase();
        let has_footer = std::mem::replace(&mut self.view.footer, false);
        let shown = self.show_query(&columns, &format!("{title} \"{schema}.{name}\"")).await;
        self.view.footer = has_footer;
        shown?;

        let mut notes = String::new();
        let keys = format!(
            "SELECT c.constraint_name, c.constraint_type, k.column_name
             FROM information_schema.table_constraints c
             JOIN information_schema.key_column_usage k
               ON k.constraint_schema = c.constraint_schema
              AND k.constraint_name = c.constraint_name AND k.table_name = c.table_name
             WHERE {} ORDER BY c.constraint_type, 1, k.ordinal_position",
            place("c.")
        );
        push_keys(&mut notes, &self.fetch_or_tell(&keys).await?);
        let checks = format!(
            "SELECT c.constraint_name, k.check_clause
             FROM information_schema.table_constraints c
             JOIN information_schema.check_constraints k
               ON k.constraint_schema = c.constraint_schema
              AND k.constraint_name = c.constraint_name
             WHERE c.constraint_type = 'CHECK' AND {} ORDER BY 1",
            place("c.")
        );
        let checks = self.fetch_or_tell(&checks).await?;
        push_list(&mut notes, "Check constraints", &checks, "CHECK (", ")");
        if kind == "view" {
            let definition =
                format!("SELECT view_definition FROM information_schema.views WHERE {}", place(""));
            for row in self.fetch_or_tell(&definition).await? {
                notes.push_str(&format!("View definition:\n{}\n", row.join("")));
            }
        }
        if !notes.is_empty() { self.tell(&format!("{notes}\n")) } else { Ok(()) }
    }

    async fn fetch_or_tell(&mut self, sql: &str) -> Result<Vec<Vec<String>>, Stop> {
        let fetched = crate::print::results::fetch(&mut self.session, sql).await;
        fetched.map_err(|error| self.tell_error(&error, None, ""))
    }
}

/// The query returns a row for each column of a key.
fn push_keys(notes: &mut String, rows: &[Vec<String>]) {
    let mut keys: Vec<(String, &str, Vec<&str>)> = Vec::new();
    for row in rows {
        let [name, kind, column] = row.as_slice() else { unreachable!("three columns") };
        match keys.last_mut() {
            Some((last, _, columns)) if last == name => columns.push(column),
            _ => keys.push((name.clone(), kind, vec![column])),
        }
    }
    if !keys.is_empty() {
        notes.push_str("Keys:\n");
    }
    for (name, kind, columns) in keys {
        notes.push_str(&format!("    \"{name}\" {kind} ({})\n", columns.join(", ")));
    }
}

fn push_list(notes: &mut String, title: &str, rows: &[Vec<String>], before: &str, after: &str) {
    if !rows.is_empty() {
        notes.push_str(&format!("{title}:\n"));
    }
    for row in rows {
        let [name, text] = row.as_slice() else { unreachable!("two columns") };
        notes.push_str(&format!("    \"{name}\" {before}{text}{after}\n"));
    }
}

/// The condition for a psql pattern: `*` and `?` match, `.` divides schema and name, quotes keep
/// capitals.
fn matching(pattern: Option<&str>, schema_column: &str, name_column: &str) -> String {
    let Some(pattern) = pattern else { return String::new() };
    let mut parts = vec![String::new()];
    for token in Lexer::tokens(pattern.trim()) {
        let text = &pattern.trim()[token.range];
        match (token.kind, text) {
            (TokenKind::Symbol, ".") => parts.push(String::new()),
            (kind, _) => parts.last_mut().expect("never empty").push_str(&like(kind, text)),
        }
    }
    let name = parts.pop().expect("never empty");
    let mut condition = format!(" AND {name_column} LIKE {}", literal(&name));
    if let Some(schema) = parts.pop() {
        condition.push_str(&format!(" AND {schema_column} LIKE {}", literal(&schema)));
    }
    condition
}

fn like(kind: TokenKind, text: &str) -> String {
    let escape = |text: &str| text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    match (kind, text) {
        (TokenKind::Symbol, "*") => "%".to_owned(),
        (TokenKind::Symbol, "?") => "_".to_owned(),
        (TokenKind::QuotedName, _) => escape(&text.trim_matches('"').replace("\"\"", "\"")),
        _ => escape(&text.to_lowercase()),
    }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_become_conditions() {
        let condition = |pattern| matching(Some(pattern), "s", "n");
        assert_eq!(condition("Flights"), " AND n LIKE 'flights'");
        assert_eq!(condition("fl*_?"), " AND n LIKE 'fl%\\__'");
        assert_eq!(condition("Pub.\"My Table\""), " AND n LIKE 'My Table' AND s LIKE 'pub'");
        assert_eq!(condition("\"it's\""), " AND n LIKE 'it''s'");
        assert_eq!(matching(None, "s", "n"), "");
    }

    #[test]
    fn keys_gather_their_columns() {
        let row = |parts: [&str; 3]| parts.map(str::to_owned).to_vec();
        let mut notes = String::new();
        push_keys(
            &mut notes,
            &[
                row(["t_pkey", "PRIMARY KEY", "a"]),
                row(["t_pkey", "PRIMARY KEY", "b"]),
                row(["t_c_key", "UNIQUE", "c"]),
            ],
        );
        assert_eq!(notes, "Keys:\n    \"t_pkey\" PRIMARY KEY (a, b)\n    \"t_c_key\" UNIQUE (c)\n");
    }
}
