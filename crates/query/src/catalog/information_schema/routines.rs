//! `routines` and `parameters`: the functions of `pg_proc`.

use super::yes_or_no;
use crate::catalog::DATABASE;
use crate::catalog::functions::base_type_name;
use crate::catalog::objects::PG_CATALOG;
use crate::catalog::pg_catalog::Procedures;
use crate::catalog::pg_catalog::procedures::Procedure;
use crate::catalog::pg_catalog::rows::{Rows, Value};
use crate::catalog::pg_catalog::types::BASE;

fn specific_name(procedure: &Procedure) -> String {
    format!("{}_{}", procedure.name, procedure.oid)
}

/// The name of a type as the standard spells it, and PostgreSQL's own.
fn type_names(oid: i64) -> (Value, Value) {
    match BASE.iter().find(|base| base.oid == oid) {
        Some(base) if base.name.starts_with('_') => ("ARRAY".into(), base.name.into()),
        Some(base) => (base_type_name(base.name, None).into(), base.name.into()),
        None => (Value::Null, Value::Null),
    }
}

pub(super) fn routines(rows: &mut Rows) {
    for procedure in Procedures::get().every() {
        let (data_type, internal) = type_names(procedure.result);
        rows.push([
            ("specific_catalog", DATABASE.into()),
            ("specific_schema", PG_CATALOG.into()),
            ("specific_name", specific_name(procedure).into()),
            ("routine_catalog", DATABASE.into()),
            ("routine_schema", PG_CATALOG.into()),
            ("routine_name", procedure.name.into()),
            ("routine_type", "FUNCTION".into()),
            ("data_type", data_type),
            ("type_udt_catalog", DATABASE.into()),
            ("type_udt_schema", PG_CATALOG.into()),
            ("type_udt_name", internal),
            ("dtd_identifier", "0".into()),
            ("routine_body", "EXTERNAL".into()),
            ("external_name", procedure.name.into()),
            ("external_language", "INTERNAL".into()),
            ("parameter_style", "GENERAL".into()),
            ("is_deterministic", yes_or_no(procedure.is_immutable())),
            ("sql_data_access", "MODIFIES".into()),
            ("is_null_call", yes_or_no(procedure.strict)),
            ("schema_level_routine", yes_or_no(true)),
            ("max_dynamic_result_sets", 0.into()),
            ("security_type", "INVOKER".into()),
            ("as_locator", yes_or_no(false)),
            ("is_udt_dependent", yes_or_no(false)),
        ]);
    }
}

pub(super) fn parameters(rows: &mut Rows) {
    for procedure in Procedures::get().every() {
        for (oid, place) in procedure.arguments.iter().zip(1_i64..) {
            let (data_type, internal) = type_names(*oid);
            rows.push([
                ("specific_catalog", DATABASE.into()),
                ("specific_schema", PG_CATALOG.into()),
                ("specific_name", specific_name(procedure).into()),
                ("ordinal_position", place.into()),
                ("parameter_mode", "IN".into()),
                ("is_result", yes_or_no(false)),
                ("as_locator", yes_or_no(false)),
                ("data_type", data_type),
                ("udt_catalog", DATABASE.into()),
                ("udt_schema", PG_CATALOG.into()),
                ("udt_name", internal),
                ("dtd_identifier", place.to_string().into()),
            ]);
        }
    }
}
