//! Unicode's normal forms are keywords: `normalize(x, NFD)`, `x IS NFD NORMALIZED`.

use datafusion::sql::sqlparser::ast::{Expr, Function, NormalizationForm};
use thalweg_types::{Error, Result, SqlState};

use super::build::{arguments_of, call, negate_if, text};
use super::names::normalized;

/// `x IS [NOT] [form] NORMALIZED`
pub(super) fn tested(expr: &Expr, form: Option<&NormalizationForm>, negated: bool) -> Expr {
    let form = form.map_or_else(|| "NFC".to_owned(), ToString::to_string);
    negate_if(negated, call("is_normalized", vec![expr.clone(), text(form)]))
}

/// `normalize(x [, form])` with the form as a text.
///
/// # Errors
/// If what is given is no form.
pub(super) fn made(function: &Function) -> Result<Option<Expr>> {
    const FORMS: [&str; 4] = ["nfc", "nfd", "nfkc", "nfkd"];
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(normalized);
    if name.as_deref() != Some("normalize") {
        return Ok(None);
    }
    let (value, form) = match arguments_of(function).as_deref() {
        Some([value]) => (*value, "nfc".to_owned()),
        Some([value, Expr::Identifier(form)]) => (*value, normalized(form)),
        _ => return Ok(None),
    };
    if !FORMS.contains(&form.as_str()) {
        let error_text = format!("syntax error at or near \"{form}\"");
        return Err(Error::new(SqlState::SYNTAX_ERROR, error_text));
    }
    Ok(Some(call("normalize", vec![value.clone(), text(form)])))
}
