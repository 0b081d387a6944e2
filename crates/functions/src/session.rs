//! Functions about a session and about the types of values.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray};
use arrow::datatypes::DataType as ArrowType;
use arrow::datatypes::{Field, FieldRef};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::functions::string::uuid;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use thalweg_types::Result;
use thalweg_values::scalar_function::Function;
use thalweg_values::types;

/// The name of the only database that a process serves.
pub(crate) const DATABASE: &str = "thalweg";
const SCHEMA: &str = "public";

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let constant = |name, value| Function::new(name, &[&[]], ArrowType::Utf8View, value);
    vec![
        constant("version", version).into_udf(),
        constant("current_database", database).alias("current_catalog").into_udf(),
        constant("current_schema", schema).into_udf(),
        constant("current_user", user)
            .alias("session_user")
            .alias("user")
            .alias("current_role")
            .into_udf(),
        Arc::new(ScalarUDF::from(PgTypeof::default())),
        Arc::new(uuid().as_ref().clone().with_aliases(["gen_random_uuid"])),
    ]
}

fn text(value: &str) -> Result<ArrayRef> {
    Ok(Arc::new(StringViewArray::from(vec![value])))
}

fn version(_: &[ArrayRef]) -> Result<ArrayRef> {
    let version = concat!("PostgreSQL 15.0 (Thalweg ", env!("CARGO_PKG_VERSION"), ")");
    text(version)
}

fn database(_: &[ArrayRef]) -> Result<ArrayRef> {
    text(DATABASE)
}

fn schema(_: &[ArrayRef]) -> Result<ArrayRef> {
    text(SCHEMA)
}

fn user(_: &[ArrayRef]) -> Result<ArrayRef> {
    text(DATABASE)
}

/// `pg_typeof(value)`: known when the statement is planned.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PgTypeof {
    signature: Signature,
    /// The name of the type, if the planner knows more of it than the argument's field says.
    known: Option<String>,
}

/// `pg_typeof` of an argument whose field, as SQL knows it, is this one.
#[must_use]
pub fn pg_typeof_known(field: &Field) -> Arc<ScalarUDF> {
    let known = Some(types::display_name(field));
    Arc::new(ScalarUDF::from(PgTypeof { known, ..PgTypeof::default() }))
}

impl Default for PgTypeof {
    fn default() -> PgTypeof {
        PgTypeof { signature: Signature::any(1, Volatility::Immutable), known: None }
    }
}

impl ScalarUDFImpl for PgTypeof {
    fn name(&self) -> &str {
        "pg_typeof"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        Ok(ArrowType::Utf8View)
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), ArrowType::Utf8View, false)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let name = match &self.known {
            Some(name) => name.clone(),
            None => types::display_name(&args.arg_fields[0]),
        };
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(name))))
    }
}
