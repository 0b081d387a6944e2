use super::*;

const BOOLEAN: i64 = 16;
const INT4: i64 = 23;
const INT8: i64 = 20;
const FLOAT8: i64 = 701;
const DATE: i64 = 1_082;
const TIMESTAMP: i64 = 1_114;
const INTERVAL: i64 = 1_186;
const NUMERIC: i64 = 1_700;
const JSONB: i64 = 3_802;
const INT4_ARRAY: i64 = 1_007;
const TEXT_ARRAY: i64 = 1_009;

#[test]
fn an_operator_types_its_unknown_operand() {
    for (name, left, right, wanted) in [
        ("+", TIMESTAMP, UNKNOWN, Some((TIMESTAMP, INTERVAL, TIMESTAMP))),
        ("-", TIMESTAMP, UNKNOWN, Some((TIMESTAMP, TIMESTAMP, INTERVAL))),
        ("+", DATE, UNKNOWN, None),
        ("-", DATE, UNKNOWN, Some((DATE, DATE, INT4))),
        ("*", INTERVAL, UNKNOWN, Some((INTERVAL, FLOAT8, INTERVAL))),
        ("*", UNKNOWN, INTERVAL, Some((FLOAT8, INTERVAL, INTERVAL))),
        ("=", INT8, UNKNOWN, Some((INT8, INT8, BOOLEAN))),
        ("=", UNKNOWN, UNKNOWN, Some((TEXT, TEXT, BOOLEAN))),
        ("+", UNKNOWN, UNKNOWN, None),
        ("->", JSONB, UNKNOWN, Some((JSONB, TEXT, JSONB))),
        ("||", TEXT, UNKNOWN, Some((TEXT, TEXT, TEXT))),
        ("@>", INT4_ARRAY, UNKNOWN, Some((INT4_ARRAY, INT4_ARRAY, BOOLEAN))),
        ("||", INT4_ARRAY, UNKNOWN, Some((INT4_ARRAY, INT4_ARRAY, INT4_ARRAY))),
        ("=", INT4, INT8, Some((INT4, INT8, BOOLEAN))),
    ] {
        let found = operator(name, left, right)
            .map(|found| (found.arguments[0], found.arguments[1], found.result));
        assert_eq!(found, wanted, "{left} {name} {right}");
    }
}

#[test]
fn a_function_types_its_unknown_arguments() {
    for (name, given, wanted) in [
        ("abs", vec![UNKNOWN], Some(vec![FLOAT8])),
        ("round", vec![UNKNOWN, INT4], Some(vec![NUMERIC, INT4])),
        ("round", vec![NUMERIC, UNKNOWN], Some(vec![NUMERIC, INT4])),
        ("mod", vec![INT8, UNKNOWN], Some(vec![INT8, INT8])),
        ("array_append", vec![INT4_ARRAY, UNKNOWN], Some(vec![INT4_ARRAY, INT4])),
        ("array_to_string", vec![TEXT_ARRAY, UNKNOWN], Some(vec![TEXT_ARRAY, TEXT])),
        ("lag", vec![NUMERIC, INT4, UNKNOWN], Some(vec![NUMERIC, INT4, NUMERIC])),
        ("jsonb_extract_path", vec![JSONB, UNKNOWN], Some(vec![JSONB, TEXT])),
        ("string_agg", vec![TEXT, UNKNOWN], Some(vec![TEXT, TEXT])),
        ("concat", vec![TEXT, UNKNOWN], Some(vec![UNKNOWN, UNKNOWN])),
        ("no_such_function", vec![UNKNOWN], None),
    ] {
        let found = function(name, &given).map(|found| found.arguments);
        assert_eq!(found, wanted, "{name} {given:?}");
    }
}

#[test]
fn values_have_a_common_type() {
    assert_eq!(common_type(&[INT4, NUMERIC, UNKNOWN]), Some(NUMERIC));
    assert_eq!(common_type(&[INT8, INT4]), Some(INT8));
    assert_eq!(common_type(&[UNKNOWN, UNKNOWN]), Some(TEXT));
    assert_eq!(common_type(&[DATE, INT4]), None);
}
