//! Definitions of functions of values: name, types, and the computation over whole columns.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, ListArray, PrimitiveArray};
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use thalweg_types::{Error, Result};

use crate::errors::external;
use crate::statement_control::check_cancelled;

/// The body of a function: takes columns of equal length and returns one column of that length.
pub type Compute = fn(&[ArrayRef]) -> Result<ArrayRef>;

/// A function that computes each row by itself, independent of the session.
pub struct Function {
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
    returns: Returns,
    compute: Compute,
}

enum Returns {
    Always(ArrowType),
    /// The type of the argument at this place.
    Argument(usize),
    /// The type is computed from the types of the arguments.
    Computed(fn(&[ArrowType]) -> PlanResult<ArrowType>),
    Field(FieldRef),
}

impl Function {
    /// A function with several argument lists; arguments are converted to the first list that fits.
    pub fn new(
        name: &'static str,
        arguments: &[&[ArrowType]],
        returns: ArrowType,
        compute: Compute,
    ) -> Function {
        let lists = arguments.iter().map(|list| match list {
            [] => TypeSignature::Nullary,
            list => TypeSignature::Exact(list.to_vec()),
        });
        Function::signed(name, TypeSignature::OneOf(lists.collect()), returns, compute)
    }

    /// A function that takes what the signature says.
    pub fn signed(
        name: &'static str,
        signature: TypeSignature,
        returns: ArrowType,
        compute: Compute,
    ) -> Function {
        Function {
            name,
            aliases: Vec::new(),
            signature: Signature::new(signature, Volatility::Immutable),
            returns: Returns::Always(returns),
            compute,
        }
    }

    /// Adds a name of the function.
    pub fn alias(mut self, alias: &str) -> Function {
        self.aliases.push(alias.to_string());
        self
    }

    /// The result has the type of an argument.
    pub fn returning_argument(mut self, place: usize) -> Function {
        self.returns = Returns::Argument(place);
        self
    }

    /// The result's type follows from those of the arguments.
    pub fn returning(mut self, returns: fn(&[ArrowType]) -> PlanResult<ArrowType>) -> Function {
        self.returns = Returns::Computed(returns);
        self
    }

    /// The result is a field with metadata of its own.
    pub fn returning_field(mut self, field: Field) -> Function {
        self.returns = Returns::Field(Arc::new(field));
        self
    }

    /// The function as DataFusion's planner takes it.
    pub fn into_udf(self) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::from(self))
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)
    }
}

/// No two functions share a name and a signature.
impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        self.name == other.name && self.signature == other.signature
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        Ok(match &self.returns {
            Returns::Always(data_type) => data_type.clone(),
            Returns::Argument(place) => arg_types[*place].clone(),
            Returns::Computed(returns) => returns(arg_types)?,
            Returns::Field(field) => field.data_type().clone(),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        if let Returns::Field(field) = &self.returns {
            return Ok(field.clone());
        }
        let types: Vec<ArrowType> =
            args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        computed(args, self.compute)
    }
}

/// A function's arguments as columns of equal length: one row if no argument differs from row to
/// row.
pub struct Arguments {
    pub columns: Vec<ArrayRef>,
    pub rows: usize,
    are_constant: bool,
}

impl Arguments {
    /// The arguments of a call for so many rows.
    pub fn of(args: Vec<ColumnarValue>, rows: usize) -> PlanResult<Arguments> {
        // A column of one row is as good as a constant, and a long text is not copied into one.
        let are_constant =
            rows != 1 && args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if are_constant { 1 } else { rows };
        let columns = args.into_iter().map(|arg| arg.into_array(rows));
        let columns = columns.collect::<PlanResult<Vec<ArrayRef>>>()?;
        Ok(Arguments { columns, rows, are_constant })
    }

    /// The result for a column of results: one value if all arguments are constant.
    pub fn result(&self, column: ArrayRef) -> PlanResult<ColumnarValue> {
        if !self.are_constant || column.is_empty() {
            return Ok(ColumnarValue::Array(column));
        }
        let value = match column.as_list_opt::<i32>() {
            // DataFusion's constructor drops the metadata of the item field.
            Some(lists) => ScalarValue::List(Arc::new(lists.slice(0, 1))),
            None => ScalarValue::try_from_array(&column, 0)?,
        };
        Ok(ColumnarValue::Scalar(value))
    }
}

/// True if an operand is NULL in all rows, so that it may have another type than the plan gives it.
///
/// DataFusion's planner evaluates expressions with a column of the type `Null` in the place of
/// other columns, and only the arguments of functions with fixed types are converted for that. A
/// strict function that takes operands of any type returns NULL for such a call.
pub fn has_unplanned_null(operands: &[ColumnarValue]) -> bool {
    operands.iter().any(|operand| match operand {
        ColumnarValue::Array(array) => array.logical_null_count() == array.len(),
        ColumnarValue::Scalar(value) => value.is_null(),
    })
}

/// The numbers of a column of the planned type. A column of NULLs may have another type, as in
/// [`has_unplanned_null`].
///
/// # Errors
/// If the column has values of another type.
pub fn planned_numbers<T: ArrowPrimitiveType>(column: &ArrayRef) -> Result<PrimitiveArray<T>> {
    if let Some(numbers) = column.as_primitive_opt::<T>() {
        return Ok(numbers.clone());
    }
    match column.logical_null_count() == column.len() {
        true => Ok(PrimitiveArray::new_null(column.len())),
        false => {
            Err(Error::internal(format!("{} in place of {}", column.data_type(), T::DATA_TYPE)))
        }
    }
}

/// Applies `compute` to columns, or to one row if all arguments are values.
pub fn computed(args: ScalarFunctionArgs, compute: Compute) -> PlanResult<ColumnarValue> {
    // Folding computes large constants one after the other, so it checks for cancellation here.
    check_cancelled().map_err(external)?;
    let arguments = Arguments::of(args.args, args.number_rows)?;
    let column = compute(&arguments.columns).map_err(external)?;
    arguments.result(with_item_type(column, args.return_field.data_type()))
}

/// The column with the item field that the plan expects: items of a list may be of a type, such as
/// `jsonb`, that only the metadata of their field says.
fn with_item_type(column: ArrayRef, expected: &ArrowType) -> ArrayRef {
    match (column.as_list_opt::<i32>(), expected) {
        (Some(lists), ArrowType::List(item))
            if column.data_type() != expected && lists.value_type() == *item.data_type() =>
        {
            let (_, offsets, values, nulls) = lists.clone().into_parts();
            let typed = ListArray::try_new(Arc::clone(item), offsets, values, nulls);
            typed.map_or(column, |typed| Arc::new(typed))
        }
        _ => column,
    }
}
