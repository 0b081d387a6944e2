//! Defines a catalog function: its name, its arguments, and the value of one call.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Int64Type};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use thalweg_types::Result;
use thalweg_values::errors::external;
use thalweg_values::system_types::{Registered, SystemType};

use super::names;
use crate::catalog::pg_catalog::rows::{Value, array};
use crate::catalog::{CatalogLookup, SessionCatalog};

/// The type of a function's result.
#[derive(Clone, Copy, Debug)]
pub(in crate::catalog) enum Returns {
    Flag,
    Integer,
    Text,
    Instant,
    System(SystemType),
    ListOf(SystemType),
}

impl Returns {
    fn field(self, name: &str) -> Field {
        let instant =
            || ArrowType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some("UTC".into()));
        match self {
            Returns::Flag => Field::new(name, ArrowType::Boolean, true),
            Returns::Integer => Field::new(name, ArrowType::Int64, true),
            Returns::Text => Field::new(name, ArrowType::Utf8View, true),
            Returns::Instant => Field::new(name, instant(), true),
            Returns::System(system) => system.field(name, true),
            Returns::ListOf(system) => {
                let item = system.field(Field::LIST_FIELD_DEFAULT_NAME, true);
                Field::new(name, ArrowType::List(Arc::new(item)), true)
            }
        }
    }
}

/// Computes a function's value for one row, for functions without state.
pub(in crate::catalog) type Answer = fn(&Call<'_>) -> Result<Value>;

type Remembering = Box<dyn Fn(&Call<'_>) -> Result<Value> + Send + Sync>;

pub(in crate::catalog) struct Definition {
    name: &'static str,
    aliases: Vec<String>,
    arguments: RangeInclusive<usize>,
    returns: Returns,
    strict: bool,
    volatility: Volatility,
    answer: Remembering,
}

impl Definition {
    /// A strict function: NULL if one of its arguments is NULL.
    pub(in crate::catalog) fn new(
        name: &'static str,
        arguments: RangeInclusive<usize>,
        returns: Returns,
        answer: impl Fn(&Call<'_>) -> Result<Value> + Send + Sync + 'static,
    ) -> Definition {
        let answer = Box::new(answer);
        let (aliases, volatility) = (Vec::new(), Volatility::Stable);
        Definition { name, aliases, arguments, returns, strict: true, volatility, answer }
    }

    /// Makes the function volatile: it has an effect, which planning must not bring about.
    pub(in crate::catalog) fn has_effect(mut self) -> Definition {
        self.volatility = Volatility::Volatile;
        self
    }

    /// Makes the function non-strict: it is called with NULL arguments too.
    pub(in crate::catalog) fn takes_null(mut self) -> Definition {
        self.strict = false;
        self
    }

    pub(in crate::catalog) fn alias(mut self, name: &str) -> Definition {
        self.aliases.push(name.to_owned());
        self
    }

    pub(in crate::catalog) fn into_udf(self, names: Arc<SessionCatalog>) -> Arc<ScalarUDF> {
        let counts = self.arguments.clone().map(|count| match count {
            0 => TypeSignature::Nullary,
            count => TypeSignature::Any(count),
        });
        let signature = TypeSignature::OneOf(counts.collect());
        let signature = Signature::new(signature, self.volatility);
        let definition = Arc::new(self);
        Arc::new(ScalarUDF::from(CatalogFunction { definition, signature, names, bound: None }))
    }
}

struct CatalogFunction {
    definition: Arc<Definition>,
    signature: Signature,
    names: Arc<SessionCatalog>,
    /// The statement's lookup; `None` until a statement is planned with the function.
    bound: Option<Arc<CatalogLookup>>,
}

impl fmt::Debug for CatalogFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.definition.name)
    }
}

/// No two functions of one session share a name.
impl PartialEq for CatalogFunction {
    fn eq(&self, other: &CatalogFunction) -> bool {
        self.definition.name == other.definition.name
            && Arc::ptr_eq(&self.names, &other.names)
            && self.bound.as_ref().map(Arc::as_ptr) == other.bound.as_ref().map(Arc::as_ptr)
    }
}

impl Eq for CatalogFunction {}

impl Hash for CatalogFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.name.hash(state);
    }
}

impl ScalarUDFImpl for CatalogFunction {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn aliases(&self) -> &[String] {
        &self.definition.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[ArrowType]) -> PlanResult<ArrowType> {
        Ok(self.definition.returns.field("").data_type().clone())
    }

    fn return_field_from_args(&self, _arguments: ReturnFieldArgs) -> PlanResult<FieldRef> {
        Ok(Arc::new(self.definition.returns.field(self.definition.name)))
    }

    /// Binds the lookup while planning, because the planner may serve another session by the time
    /// that the statement's rows come.
    fn simplify(
        &self,
        arguments: Vec<Expr>,
        _: &SimplifyContext,
    ) -> PlanResult<ExprSimplifyResult> {
        if self.bound.is_some() {
            return Ok(ExprSimplifyResult::Original(arguments));
        }
        let bound = CatalogFunction {
            definition: Arc::clone(&self.definition),
            signature: self.signature.clone(),
            names: Arc::clone(&self.names),
            bound: Some(Arc::new(self.names.lookup().map_err(external)?)),
        };
        let call = Arc::new(ScalarUDF::from(bound)).call(arguments);
        Ok(ExprSimplifyResult::Simplified(call))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let is_scalar = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        let one_value = arguments.args.iter().all(is_scalar);
        let rows = if one_value { 1 } else { arguments.number_rows };
        let columns = arguments.args.into_iter().map(|value| Column::new(value.into_array(rows)?));
        let columns = columns.collect::<PlanResult<Vec<Column>>>()?;
        let lookup = match &self.bound {
            Some(bound) => Arc::clone(bound),
            None => Arc::new(self.names.lookup().map_err(external)?),
        };
        let answers = (0..rows).map(|row| {
            let call = Call { columns: &columns, row, lookup: &lookup };
            if self.definition.strict && call.has_null() {
                return Ok(Value::Null);
            }
            (self.definition.answer)(&call)
        });
        let answers = answers.collect::<Result<Vec<Value>>>().map_err(external)?;
        let answers = array(answers, &Arc::new(self.definition.returns.field("")));
        if one_value {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&answers, 0)?));
        }
        Ok(ColumnarValue::Array(answers))
    }
}

/// The values of one argument, as texts or as numbers.
enum Column {
    Texts(StringViewArray),
    Numbers(Int64Array),
    Other(ArrayRef),
}

impl Column {
    fn new(values: ArrayRef) -> PlanResult<Column> {
        use ArrowType::{Boolean, Decimal128, LargeUtf8, Null, Utf8, Utf8View};
        Ok(match values.data_type() {
            Utf8 | LargeUtf8 | Utf8View => {
                Column::Texts(cast(&values, &Utf8View)?.as_string_view().clone())
            }
            Boolean | Null | Decimal128(_, _) => Column::numbers(&values)?,
            other if other.is_numeric() => Column::numbers(&values)?,
            _ => Column::Other(values),
        })
    }

    fn numbers(values: &ArrayRef) -> PlanResult<Column> {
        let numbers = cast(values, &ArrowType::Int64)?;
        Ok(Column::Numbers(numbers.as_primitive::<Int64Type>().clone()))
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Column::Texts(texts) => texts.is_null(row),
            Column::Numbers(numbers) => numbers.is_null(row),
            Column::Other(values) => values.is_null(row),
        }
    }
}

/// One call of a function: the arguments of one row, and where to look.
pub(in crate::catalog) struct Call<'a> {
    columns: &'a [Column],
    row: usize,
    pub(in crate::catalog) lookup: &'a CatalogLookup,
}

impl Call<'_> {
    pub(in crate::catalog) fn count(&self) -> usize {
        self.columns.len()
    }

    fn has_null(&self) -> bool {
        self.columns.iter().any(|column| column.is_null(self.row))
    }

    /// The argument as a text, if it is one.
    pub(in crate::catalog) fn text(&self, index: usize) -> Option<&str> {
        match self.columns.get(index)? {
            Column::Texts(texts) => texts.is_valid(self.row).then(|| texts.value(self.row)),
            _ => None,
        }
    }

    /// The argument as a number, also where it is written as a text.
    pub(in crate::catalog) fn number(&self, index: usize) -> Option<i64> {
        match self.columns.get(index)? {
            Column::Numbers(numbers) => numbers.is_valid(self.row).then(|| numbers.value(self.row)),
            Column::Texts(_) => self.text(index)?.trim().parse().ok(),
            Column::Other(_) => None,
        }
    }

    /// The argument as a truth value.
    pub(in crate::catalog) fn flag(&self, index: usize) -> Option<bool> {
        match self.columns.get(index)? {
            Column::Texts(_) => Some(matches!(self.text(index)?, "t" | "true" | "on" | "yes")),
            _ => Some(self.number(index)? != 0),
        }
    }

    /// The number of the object that the argument names, or is the number of.
    ///
    /// # Errors
    /// If there is no object of the name.
    pub(in crate::catalog) fn object(&self, index: usize, kind: Registered) -> Result<Option<i64>> {
        match self.text(index) {
            Some(text) => names::resolve(kind, text, self).map(Some),
            None => Ok(self.number(index)),
        }
    }
}
