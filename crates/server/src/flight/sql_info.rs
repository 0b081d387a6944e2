//! The answers to `GetSqlInfo`. Missing entries mean unlimited or unknown.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow_flight::sql::metadata::{SqlInfoData, SqlInfoDataBuilder};
use arrow_flight::sql::{
    SqlInfo, SqlNullOrdering, SqlOuterJoinsSupportLevel, SqlSupportedCaseSensitivity,
    SqlSupportedGroupBy, SqlSupportedResultSetConcurrency, SqlSupportedResultSetType,
    SqlSupportedSubqueries, SqlSupportedTransaction, SqlSupportedUnions,
    SqlSupportsConvert as Convert, SqlTransactionIsolationLevel, SupportedSqlGrammar,
};

use super::encode::ROW_BYTES_MAX;

const NUMERIC_FUNCTIONS: &[&str] = &[
    "abs", "acos", "asin", "atan", "atan2", "ceil", "cos", "cot", "degrees", "exp", "floor", "ln",
    "log", "mod", "pi", "power", "radians", "random", "round", "sign", "sin", "sqrt", "tan",
    "trunc",
];

const STRING_FUNCTIONS: &[&str] = &[
    "ascii",
    "btrim",
    "character_length",
    "chr",
    "concat",
    "concat_ws",
    "initcap",
    "left",
    "length",
    "lower",
    "lpad",
    "ltrim",
    "md5",
    "octet_length",
    "position",
    "regexp_replace",
    "repeat",
    "replace",
    "reverse",
    "right",
    "rpad",
    "rtrim",
    "split_part",
    "starts_with",
    "strpos",
    "substr",
    "substring",
    "translate",
    "upper",
];

const DATETIME_FUNCTIONS: &[&str] = &[
    "current_date",
    "current_time",
    "current_timestamp",
    "date_bin",
    "date_part",
    "date_trunc",
    "extract",
    "make_date",
    "now",
    "to_char",
    "to_timestamp",
];

const SYSTEM_FUNCTIONS: &[&str] = &["coalesce", "nullif", "pg_typeof", "version"];

/// Reserved words that are not keywords of SQL:2003.
const KEYWORDS: &[&str] = &["ILIKE", "LIMIT", "OFFSET", "RETURNING"];

/// All entries. Idle transactions and statements are dropped after `idle`.
pub(crate) fn sql_info(idle: Duration) -> SqlInfoData {
    let mut facts = SqlInfoDataBuilder::new();
    server(&mut facts, idle);
    names(&mut facts);
    statements(&mut facts);
    transactions(&mut facts);
    results(&mut facts);
    facts.build().expect("the facts are of the types that the schema knows")
}

fn server(facts: &mut SqlInfoDataBuilder, idle: Duration) {
    let idle_millis = i32::try_from(idle.as_millis()).unwrap_or(i32::MAX);
    facts.append(SqlInfo::FlightSqlServerName, "Thalweg");
    facts.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    facts.append(SqlInfo::FlightSqlServerArrowVersion, arrow::ARROW_VERSION);
    facts.append(SqlInfo::FlightSqlServerReadOnly, false);
    facts.append(SqlInfo::FlightSqlServerSql, true);
    facts.append(SqlInfo::FlightSqlServerSubstrait, false);
    let savepoints = SqlSupportedTransaction::Savepoint as i32;
    facts.append(SqlInfo::FlightSqlServerTransaction, savepoints);
    facts.append(SqlInfo::FlightSqlServerCancel, true);
    facts.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    facts.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, true);
    facts.append(SqlInfo::FlightSqlServerStatementTimeout, idle_millis);
    facts.append(SqlInfo::FlightSqlServerTransactionTimeout, idle_millis);
}

fn names(facts: &mut SqlInfoDataBuilder) {
    let lower = SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32;
    facts.append(SqlInfo::SqlIdentifierCase, lower);
    facts.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    // The protocol has no value for names whose case is preserved when quoted.
    let unknown = SqlSupportedCaseSensitivity::SqlCaseSensitivityUnknown as i32;
    facts.append(SqlInfo::SqlQuotedIdentifierCase, unknown);
    facts.append(SqlInfo::SqlExtraNameCharacters, "$");
    facts.append(SqlInfo::SqlSearchStringEscape, "\\");
    facts.append(SqlInfo::SqlKeywords, KEYWORDS);
    facts.append(SqlInfo::SqlNumericFunctions, NUMERIC_FUNCTIONS);
    facts.append(SqlInfo::SqlStringFunctions, STRING_FUNCTIONS);
    facts.append(SqlInfo::SqlSystemFunctions, SYSTEM_FUNCTIONS);
    facts.append(SqlInfo::SqlDatetimeFunctions, DATETIME_FUNCTIONS);
    facts.append(SqlInfo::SqlSchemaTerm, "schema");
    facts.append(SqlInfo::SqlProcedureTerm, "");
    facts.append(SqlInfo::SqlCatalogTerm, "database");
    facts.append(SqlInfo::SqlCatalogAtStart, true);
    // Procedures, indexes and privileges cannot be qualified by a schema or catalog.
    facts.append(SqlInfo::SqlSchemasSupportedActions, 0);
    facts.append(SqlInfo::SqlCatalogsSupportedActions, 0);
}

fn statements(facts: &mut SqlInfoDataBuilder) {
    facts.append(SqlInfo::SqlDdlCatalog, false);
    facts.append(SqlInfo::SqlDdlSchema, true);
    facts.append(SqlInfo::SqlDdlTable, true);
    facts.append(SqlInfo::SqlAllTablesAreSelectable, true);
    facts.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i32);
    facts.append(SqlInfo::SqlSupportsColumnAliasing, true);
    facts.append(SqlInfo::SqlNullPlusNullIsNull, true);
    facts.append(SqlInfo::SqlSupportsConvert, conversions());
    facts.append(SqlInfo::SqlSupportsTableCorrelationNames, true);
    facts.append(SqlInfo::SqlSupportsDifferentTableCorrelationNames, false);
    facts.append(SqlInfo::SqlSupportsExpressionsInOrderBy, true);
    facts.append(SqlInfo::SqlSupportsOrderByUnrelated, true);
    let unrelated = bit(SqlSupportedGroupBy::SqlGroupByUnrelated as i32);
    let beyond = bit(SqlSupportedGroupBy::SqlGroupByBeyondSelect as i32);
    facts.append(SqlInfo::SqlSupportedGroupBy, unrelated | beyond);
    facts.append(SqlInfo::SqlSupportsLikeEscapeClause, true);
    facts.append(SqlInfo::SqlSupportsNonNullableColumns, true);
    let minimum = bit(SupportedSqlGrammar::SqlMinimumGrammar as i32);
    let core = bit(SupportedSqlGrammar::SqlCoreGrammar as i32);
    facts.append(SqlInfo::SqlSupportedGrammar, minimum | core);
    // Entry level would require foreign keys.
    facts.append(SqlInfo::SqlAnsi92SupportedLevel, 0);
    facts.append(SqlInfo::SqlSupportsIntegrityEnhancementFacility, false);
    let full = SqlOuterJoinsSupportLevel::SqlFullOuterJoins as i32;
    facts.append(SqlInfo::SqlOuterJoinsSupportLevel, full);
    facts.append(SqlInfo::SqlSupportedPositionedCommands, 0);
    facts.append(SqlInfo::SqlSelectForUpdateSupported, false);
    facts.append(SqlInfo::SqlStoredProceduresSupported, false);
    let subqueries = [
        SqlSupportedSubqueries::SqlSubqueriesInComparisons,
        SqlSupportedSubqueries::SqlSubqueriesInExists,
        SqlSupportedSubqueries::SqlSubqueriesInIns,
        SqlSupportedSubqueries::SqlSubqueriesInQuantifieds,
    ];
    let subqueries = subqueries.into_iter().fold(0, |mask, kind| mask | bit(kind as i32));
    facts.append(SqlInfo::SqlSupportedSubqueries, subqueries);
    facts.append(SqlInfo::SqlCorrelatedSubqueriesSupported, true);
    let unions = bit(SqlSupportedUnions::SqlUnion as i32);
    let unions = unions | bit(SqlSupportedUnions::SqlUnionAll as i32);
    facts.append(SqlInfo::SqlSupportedUnions, unions);
    facts.append(SqlInfo::SqlMaxRowSize, ROW_BYTES_MAX as i64);
    facts.append(SqlInfo::SqlMaxRowSizeIncludesBlobs, true);
    facts.append(SqlInfo::SqlNamedParametersSupported, false);
    facts.append(SqlInfo::SqlStoredFunctionsUsingCallSyntaxSupported, false);
}

fn transactions(facts: &mut SqlInfoDataBuilder) {
    facts.append(SqlInfo::SqlTransactionsSupported, true);
    facts.append(SqlInfo::SqlSavepointsSupported, true);
    let snapshot = SqlTransactionIsolationLevel::SqlTransactionRepeatableRead as i32;
    // Arrow's Java library expects a 64-bit integer here.
    facts.append(SqlInfo::SqlDefaultTransactionIsolation, i64::from(snapshot));
    facts.append(SqlInfo::SqlSupportedTransactionsIsolationLevels, bit(snapshot));
    facts.append(SqlInfo::SqlDataDefinitionCausesTransactionCommit, false);
    facts.append(SqlInfo::SqlDataDefinitionsInTransactionsIgnored, false);
}

fn results(facts: &mut SqlInfoDataBuilder) {
    let forward = bit(SqlSupportedResultSetType::SqlResultSetTypeForwardOnly as i32);
    let read_only = bit(SqlSupportedResultSetConcurrency::SqlResultSetConcurrencyReadOnly as i32);
    facts.append(SqlInfo::SqlSupportedResultSetTypes, forward);
    facts.append(SqlInfo::SqlSupportedConcurrenciesForResultSetUnspecified, 0);
    facts.append(SqlInfo::SqlSupportedConcurrenciesForResultSetForwardOnly, read_only);
    facts.append(SqlInfo::SqlSupportedConcurrenciesForResultSetScrollSensitive, 0);
    facts.append(SqlInfo::SqlSupportedConcurrenciesForResultSetScrollInsensitive, 0);
    facts.append(SqlInfo::SqlBatchUpdatesSupported, true);
    facts.append(SqlInfo::SqlLocatorsUpdateCopy, false);
}

/// The conversions that `CAST` supports.
fn conversions() -> BTreeMap<i32, Vec<i32>> {
    let numbers = [
        Convert::SqlConvertSmallint,
        Convert::SqlConvertInteger,
        Convert::SqlConvertBigint,
        Convert::SqlConvertReal,
        Convert::SqlConvertFloat,
        Convert::SqlConvertDecimal,
        Convert::SqlConvertNumeric,
    ];
    let times = [Convert::SqlConvertDate, Convert::SqlConvertTimestamp];
    let texts = [Convert::SqlConvertChar, Convert::SqlConvertVarchar];
    let number_or_text: Vec<i32> = numbers.iter().chain(&texts).map(|to| *to as i32).collect();
    let time_or_text: Vec<i32> = times.iter().chain(&texts).map(|to| *to as i32).collect();
    let mut all: Vec<i32> =
        numbers.iter().chain(&times).chain(&texts).map(|to| *to as i32).collect();
    all.push(Convert::SqlConvertTime as i32);
    let mut conversions = BTreeMap::new();
    conversions.extend(numbers.map(|from| (from as i32, number_or_text.clone())));
    conversions.extend(times.map(|from| (from as i32, time_or_text.clone())));
    conversions.extend(texts.map(|from| (from as i32, all.clone())));
    conversions
}

/// A bit mask with one bit set.
fn bit(value: i32) -> i32 {
    1 << value
}
