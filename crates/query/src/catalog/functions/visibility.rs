//! Visibility of objects by unqualified name, and descriptions of objects.

use thalweg_types::Result;
use thalweg_values::system_types::Registered;

use super::define::{Answer, Call, Definition, Returns};
use crate::catalog::comments::PG_CLASS;
use crate::catalog::objects::{PG_CATALOG, ROW_ARRAYS, ROW_TYPES};
use crate::catalog::pg_catalog::Procedures;
use crate::catalog::pg_catalog::rows::Value;
use crate::catalog::pg_catalog::types::BASE;

pub(super) fn functions() -> Vec<Definition> {
    let flag = |name, answer: Answer| Definition::new(name, 1..=1, Returns::Flag, answer);
    let text =
        |name, arguments, answer: Answer| Definition::new(name, arguments, Returns::Text, answer);
    let mut functions = vec![
        flag("pg_table_is_visible", table_is_visible),
        flag("pg_type_is_visible", type_is_visible),
        flag("pg_function_is_visible", |call| {
            let procedure = call.number(0).and_then(|oid| Procedures::get().numbered(oid));
            Ok(procedure.map(|_| true).into())
        }),
        flag("pg_relation_is_publishable", |call| {
            let oid = call.object(0, Registered::Class)?;
            let relation = oid.and_then(|oid| call.lookup.objects.relation(oid));
            Ok(relation.map(|relation| relation.table().is_some()).into())
        }),
        text("obj_description", 1..=2, |call| Ok(description(call, false).into())),
        text("shobj_description", 2..=2, |call| Ok(description(call, true).into())),
        text("col_description", 2..=2, column_description),
    ];
    // All other kinds of object lie in pg_catalog, which is on every search path.
    functions.extend(
        [
            "pg_opclass_is_visible",
            "pg_opfamily_is_visible",
            "pg_operator_is_visible",
            "pg_collation_is_visible",
            "pg_conversion_is_visible",
            "pg_statistics_obj_is_visible",
            "pg_ts_config_is_visible",
            "pg_ts_dict_is_visible",
            "pg_ts_parser_is_visible",
            "pg_ts_template_is_visible",
        ]
        .map(|name| flag(name, |_| Ok(Value::Flag(true)))),
    );
    functions
}

/// The comment on an object. Without the name of a catalog table, the first object of the number.
fn description(call: &Call<'_>, is_shared: bool) -> Option<String> {
    let object = call.number(0)?;
    let class = match call.count() {
        1 => None,
        _ => {
            let class = call.lookup.objects.relation_named(PG_CATALOG, call.text(1)?)?;
            Some(class.oid)
        }
    };
    let found = call.lookup.objects.comments.iter().find(|comment| {
        comment.object == object
            && comment.column == 0
            && comment.is_shared() == is_shared
            && class.is_none_or(|class| class == comment.class)
    });
    found.map(|comment| comment.text.clone())
}

fn column_description(call: &Call<'_>) -> Result<Value> {
    let (Some(object), Some(column)) = (call.number(0), call.number(1)) else {
        return Ok(Value::Null);
    };
    let found = call.lookup.objects.comments.iter().find(|comment| {
        comment.class == PG_CLASS && comment.object == object && comment.column == column
    });
    Ok(found.map(|comment| comment.text.clone()).into())
}

fn table_is_visible(call: &Call<'_>) -> Result<Value> {
    let relation = call.number(0).and_then(|oid| call.lookup.objects.relation(oid));
    Ok(relation.map(|relation| call.lookup.is_visible(relation)).into())
}

fn type_is_visible(call: &Call<'_>) -> Result<Value> {
    let Some(oid) = call.number(0) else { return Ok(Value::Null) };
    if BASE.iter().any(|base| base.oid == oid) {
        return Ok(Value::Flag(true));
    }
    let relation = match oid {
        ROW_ARRAYS.. => oid - ROW_ARRAYS,
        _ => oid - ROW_TYPES,
    };
    let relation = call.lookup.objects.relation(relation);
    Ok(relation.map(|relation| call.lookup.is_visible(relation)).into())
}
