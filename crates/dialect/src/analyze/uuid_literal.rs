//! Literals compared with `uuid` values, in the canonical form of uuids.
//!
//! Uuids are stored as text: `id = 'A0EE…'` would find nothing if the literal stayed as written.

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{Cast, InList};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable};
use thalweg_types::DataType;
use thalweg_values::cast::is_text;
use thalweg_values::types;

/// The comparison with canonical literals, if it has a `uuid` and a literal in another form.
pub(super) fn canonical(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() => {
            let (left, right) = match (canonical_literal(left), canonical_literal(right)) {
                (None, Some(right)) if is_uuid(left, schema) => (left.as_ref().clone(), right),
                (Some(left), None) if is_uuid(right, schema) => (left, right.as_ref().clone()),
                _ => return None,
            };
            Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), *op, Box::new(right))))
        }
        Expr::InList(InList { expr, list, negated }) if is_uuid(expr, schema) => {
            let replaced: Vec<Option<Expr>> = list.iter().map(canonical_literal).collect();
            if replaced.iter().all(Option::is_none) {
                return None;
            }
            let list = replaced.into_iter().zip(list);
            let list = list.map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect();
            Some(Expr::InList(InList::new(expr.clone(), list, *negated)))
        }
        _ => None,
    }
}

fn is_uuid(expr: &Expr, schema: &DFSchema) -> bool {
    expr.to_field(schema)
        .is_ok_and(|(_, field)| types::from_field(&field).ok() == Some(DataType::Uuid))
}

/// A uuid's canonical text as a literal of the same type; nothing if it has that form already.
fn canonical_literal(expr: &Expr) -> Option<Expr> {
    // Type coercion may have put a cast from one kind of string to another around it.
    if let Expr::Cast(cast) = expr
        && is_text(cast.field.data_type())
    {
        let inner = Box::new(canonical_literal(&cast.expr)?);
        return Some(Expr::Cast(Cast { expr: inner, field: cast.field.clone() }));
    }
    let Expr::Literal(value, metadata) = expr else { return None };
    let text = value.try_as_str()??;
    let canonical = uuid::Uuid::try_parse(text.trim()).ok()?.hyphenated().to_string();
    if canonical == text {
        return None;
    }
    let value = match value {
        ScalarValue::Utf8View(_) => ScalarValue::Utf8View(Some(canonical)),
        ScalarValue::LargeUtf8(_) => ScalarValue::LargeUtf8(Some(canonical)),
        _ => ScalarValue::Utf8(Some(canonical)),
    };
    Some(Expr::Literal(value, metadata.clone()))
}
