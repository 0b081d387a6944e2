//! Help pages of the shell.

/// Output of `\?`.
pub const COMMANDS: &str = "\
Statements
  ;                     ends and runs a statement
  \\g, \\gx               runs it; \\gx shows a line for each value
  \\e                    edits it, or the last one, in $EDITOR
  \\p, \\r                shows it; forgets it
  \\watch [SEC] [c=N]    runs it every SEC seconds, N times or until Ctrl-C

The database
  \\d [NAME]             relations; or the columns, keys and checks of one
  \\dt, \\dv [PATTERN]    tables; views
  \\dn, \\du [PATTERN]    schemas; roles
  \\df, \\di [PATTERN]    functions; indexes
  \\drds [PATTERN]       defaults of settings for roles and the database
  \\l                    the database and where it lies

Results
  \\x [on|off|auto]      a line for each value; auto: where a table is too wide
  \\format FORMAT        table, csv, json, arrow or parquet
  \\pset [OPTION VALUE]  border, expanded, footer, format, null, pager, timeout, timing
  \\timing [on|off]      tells how long each statement took
  \\o [FILE]             sends results to a file; back to the terminal

Files
  \\i FILE               runs a script
  \\copy ...             the statement COPY
  \\echo TEXT            shows a text
  \\set [NAME [VALUE]]   variables; sets one, for statements that name it: :name,
                        :'name' (a string), :\"name\" (a quoted name)
  \\unset NAME           forgets a variable
  \\! [COMMAND]          runs a command of the operating system, or its shell

  \\h [STATEMENT]        help on SQL
  \\?                    this page
  \\q, Ctrl-D            leaves; Ctrl-C cancels the statement that runs
";

/// The names of the commands, for completion.
pub fn command_names() -> impl Iterator<Item = &'static str> {
    const NAMES: &[&str] = &[
        "\\!",
        "\\?",
        "\\copy",
        "\\conninfo",
        "\\d",
        "\\df",
        "\\di",
        "\\dn",
        "\\drds",
        "\\dt",
        "\\du",
        "\\dv",
        "\\e",
        "\\echo",
        "\\format",
        "\\g",
        "\\gx",
        "\\h",
        "\\i",
        "\\l",
        "\\o",
        "\\p",
        "\\pset",
        "\\q",
        "\\r",
        "\\set",
        "\\timing",
        "\\unset",
        "\\watch",
        "\\x",
    ];
    NAMES.iter().copied()
}

/// Statements and their syntax, for `\h`.
const STATEMENTS: &[(&str, &str)] = &[
    ("ALTER DATABASE", "ALTER DATABASE name {SET setting = value | RESET setting | RESET ALL}"),
    (
        "ALTER ROLE",
        "ALTER ROLE {name | ALL} [IN DATABASE name] {SET setting = value | RESET setting}",
    ),
    ("ALTER TABLE", "ALTER TABLE name {ADD COLUMN | DROP COLUMN | RENAME ...} ..."),
    ("BEGIN", "BEGIN"),
    ("CHECKPOINT", "CHECKPOINT"),
    ("COMMIT", "COMMIT"),
    (
        "COPY",
        "COPY table [(columns)] FROM 'file' [WITH (FORMAT csv, HEADER, ...)]\n\
         COPY {table | (query)} TO 'file' [WITH (FORMAT parquet, ...)]",
    ),
    (
        "CREATE TABLE",
        "CREATE TABLE [IF NOT EXISTS] name (\n    column type [NOT NULL] [DEFAULT expression] \
         [PRIMARY KEY] [UNIQUE] [CHECK (condition)], ...\n) [WITH (shard_key = 'column')]\n\
         CREATE TABLE name AS query",
    ),
    ("CREATE VIEW", "CREATE [OR REPLACE] VIEW name AS query"),
    ("DELETE", "DELETE FROM table [WHERE condition] [RETURNING ...]"),
    ("DROP TABLE", "DROP TABLE [IF EXISTS] name"),
    ("DROP VIEW", "DROP VIEW [IF EXISTS] name"),
    ("EXPLAIN", "EXPLAIN [ANALYZE] statement"),
    (
        "INSERT",
        "INSERT INTO table [(columns)] {VALUES (...), ... | query}\n    \
         [ON CONFLICT (key) {DO NOTHING | DO UPDATE SET column = excluded.column, ...}]\n    \
         [RETURNING ...]",
    ),
    ("ROLLBACK", "ROLLBACK"),
    (
        "SELECT",
        "[WITH name AS (query), ...]\nSELECT [DISTINCT] expression, ...\n    \
         [FROM table | 'file.csv' | (query) alias] [JOIN ... ON ...]\n    [WHERE condition] \
         [GROUP BY ...] [HAVING ...]\n    [ORDER BY ... [DESC]] [LIMIT n] [OFFSET n]",
    ),
    ("UPDATE", "UPDATE table SET column = expression, ... [WHERE condition] [RETURNING ...]"),
];

/// Output of `\h`: a statement's syntax, or the list of statements.
pub fn statement(name: &str) -> String {
    let wanted = name.trim().to_uppercase();
    let found: Vec<&(&str, &str)> =
        STATEMENTS.iter().filter(|(known, _)| known.starts_with(&wanted)).collect();
    if wanted.is_empty() || found.is_empty() {
        let names: Vec<String> =
            STATEMENTS.iter().map(|(known, _)| format!("  {known}\n")).collect();
        let lead = if wanted.is_empty() { "\\h STATEMENT, for one of:" } else { "There are:" };
        return format!("{lead}\n{}", names.concat());
    }
    found.iter().map(|(_, syntax)| format!("{syntax}\n")).collect()
}

/// Keywords for completion and colours.
pub const KEYWORDS: &[&str] = &[
    "ADD",
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "ANY",
    "AS",
    "ASC",
    "BEGIN",
    "BETWEEN",
    "BIGINT",
    "BOOLEAN",
    "BY",
    "BYTEA",
    "CASCADE",
    "CASE",
    "CAST",
    "CHECK",
    "CHECKPOINT",
    "COALESCE",
    "COLUMN",
    "COMMIT",
    "CONFLICT",
    "CONSTRAINT",
    "COPY",
    "CREATE",
    "CROSS",
    "CURRENT_DATE",
    "CURRENT_TIMESTAMP",
    "DATE",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DISTINCT",
    "DO",
    "DOUBLE",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXTRACT",
    "FALSE",
    "FILTER",
    "FIRST",
    "FOR",
    "FROM",
    "FULL",
    "GENERATED",
    "GROUP",
    "HAVING",
    "IDENTITY",
    "IF",
    "ILIKE",
    "IN",
    "INNER",
    "INSERT",
    "INTEGER",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "JSON",
    "KEY",
    "LAST",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NOTHING",
    "NULL",
    "NULLS",
    "NUMERIC",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "PRECISION",
    "PRIMARY",
    "REAL",
    "RECURSIVE",
    "RENAME",
    "REPLACE",
    "RETURNING",
    "RIGHT",
    "ROLLBACK",
    "ROWS",
    "SAVEPOINT",
    "SCHEMA",
    "SELECT",
    "SET",
    "SHOW",
    "SMALLINT",
    "TABLE",
    "TEXT",
    "THEN",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "TO",
    "TRUE",
    "TRUNCATE",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "USING",
    "UUID",
    "VALUES",
    "VARCHAR",
    "VIEW",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
];

/// Functions for completion: the most used ones, not all of them.
pub const FUNCTIONS: &[&str] = &[
    "abs",
    "array_agg",
    "avg",
    "ceil",
    "char_length",
    "concat",
    "corr",
    "count",
    "cume_dist",
    "date_part",
    "date_trunc",
    "dense_rank",
    "exp",
    "first_value",
    "floor",
    "generate_series",
    "greatest",
    "lag",
    "last_value",
    "lead",
    "least",
    "left",
    "length",
    "ln",
    "log",
    "lower",
    "lpad",
    "max",
    "md5",
    "median",
    "min",
    "mod",
    "now",
    "ntile",
    "nullif",
    "percent_rank",
    "position",
    "power",
    "random",
    "rank",
    "regexp_replace",
    "repeat",
    "replace",
    "reverse",
    "right",
    "round",
    "row_number",
    "rpad",
    "sign",
    "split_part",
    "sqrt",
    "stddev",
    "string_agg",
    "strpos",
    "substr",
    "substring",
    "sum",
    "to_char",
    "to_timestamp",
    "trim",
    "trunc",
    "upper",
    "var_pop",
    "variance",
];

/// Words that must be quoted to be used as names.
pub const RESERVED: &[&str] = &[
    "all",
    "and",
    "any",
    "as",
    "asc",
    "case",
    "cast",
    "check",
    "column",
    "constraint",
    "create",
    "cross",
    "default",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "for",
    "from",
    "full",
    "group",
    "having",
    "in",
    "inner",
    "intersect",
    "into",
    "is",
    "join",
    "lateral",
    "left",
    "like",
    "limit",
    "not",
    "null",
    "offset",
    "on",
    "or",
    "order",
    "primary",
    "returning",
    "right",
    "select",
    "table",
    "then",
    "to",
    "true",
    "union",
    "unique",
    "using",
    "when",
    "where",
    "window",
    "with",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_on_the_page() {
        for name in command_names().filter(|name| *name != "\\conninfo") {
            assert!(COMMANDS.contains(name), "{name}");
        }
    }

    #[test]
    fn statements_are_found_by_their_first_words() {
        assert!(statement("insert").starts_with("INSERT INTO"));
        assert_eq!(statement("create").matches("CREATE TABLE [").count(), 1);
        assert!(statement("").contains("  SELECT\n"));
        assert!(statement("fly").starts_with("There are:"));
    }

    #[test]
    fn lists_are_sorted() {
        assert!(KEYWORDS.is_sorted() && FUNCTIONS.is_sorted() && RESERVED.is_sorted());
    }
}
