//! `array_agg` in an order: DataFusion's own for few rows, and sorted runs for many.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StructArray, new_empty_array};
use arrow::datatypes::{DataType as ArrowType, Fields};
use arrow::row::SortField;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::Accumulator;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::physical_expr::PhysicalSortExpr;
use thalweg_values::errors::external;
use thalweg_values::statement_control::check_cancelled;

use super::cached_size::CachedSize;
use super::runs::Runs;

/// Number of rows that DataFusion aggregates within a few milliseconds. It holds each value for
/// itself, in a hundred bytes and more, and sorts all of them at once.
const FEW_ROWS: usize = 4 << 10;

#[derive(Debug)]
pub(super) struct InOrder {
    held: Held,
    order: Order,
}

/// The type of the gathered items, and their order.
#[derive(Debug)]
pub(super) struct Order {
    item: ArrowType,
    fields: Vec<SortField>,
    leaves_nulls_out: bool,
}

#[derive(Debug)]
enum Held {
    Few(CachedSize),
    /// The rows, and the names of the sort keys in a state.
    Many(Box<Runs>, Fields),
}

impl Order {
    /// # Errors
    /// If a sort key has no type.
    pub(super) fn of(args: &AccumulatorArgs) -> PlanResult<Order> {
        let field = |by: &PhysicalSortExpr| {
            // Rows of a reversed aggregate are passed on in reversed order, also in states.
            let options = if args.is_reversed { !by.options } else { by.options };
            Ok(SortField::new_with_options(by.expr.data_type(args.schema)?, options))
        };
        let item = &args.expr_fields[0];
        Ok(Order {
            item: item.data_type().clone(),
            fields: args.order_bys.iter().map(field).collect::<PlanResult<_>>()?,
            leaves_nulls_out: args.ignore_nulls && item.is_nullable(),
        })
    }

    /// The result for no rows.
    fn nothing(&self) -> ScalarValue {
        ScalarValue::new_null_list(self.item.clone(), true, 1)
    }
}

impl InOrder {
    pub(super) fn new(few: Box<dyn Accumulator>, order: Order) -> InOrder {
        InOrder { held: Held::Few(CachedSize::new(few)), order }
    }

    /// Switches to runs once there are many rows.
    fn look(&mut self) -> PlanResult<()> {
        match &self.held {
            Held::Few(few) if few.rows() > FEW_ROWS => self.go_over(),
            _ => Ok(()),
        }
    }

    fn go_over(&mut self) -> PlanResult<()> {
        let Held::Few(few) = &mut self.held else { return Ok(()) };
        let Order { fields, leaves_nulls_out, .. } = &self.order;
        let mut runs = Runs::new(fields.clone(), *leaves_nulls_out)?;
        let state = few.state()?;
        let arrays: Vec<ArrayRef> =
            state.iter().map(ScalarValue::to_array).collect::<PlanResult<_>>()?;
        let fields = add_states(&mut runs, &arrays)?;
        self.held = Held::Many(Box::new(runs), fields);
        Ok(())
    }
}

fn list(items: ArrayRef) -> ScalarValue {
    SingleRowListArrayBuilder::new(items).build_list_scalar()
}

fn broken(what: &str) -> DataFusionError {
    DataFusionError::Internal(what.to_owned())
}

/// Adds the rows of states: lists of values, and of their sort keys.
fn add_states(runs: &mut Runs, states: &[ArrayRef]) -> PlanResult<Fields> {
    let lists = |column: &ArrayRef| column.as_list_opt::<i32>().cloned();
    let (Some(values), Some(orders)) =
        (states.first().and_then(lists), states.get(1).and_then(lists))
    else {
        return Err(broken("the state of array_agg is two lists"));
    };
    let Some(all) = orders.values().as_struct_opt() else {
        return Err(broken("an order of array_agg has columns"));
    };
    let fields = all.fields().clone();
    for row in 0..values.len() {
        if values.is_null(row) {
            continue;
        }
        let mut columns = vec![values.value(row)];
        columns.extend_from_slice(orders.value(row).as_struct().columns());
        runs.add_ordered(&columns)?;
    }
    Ok(fields)
}

impl Accumulator for InOrder {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        // Rows of earlier sorts come without a pause, so this checks for cancellation.
        check_cancelled().map_err(external)?;
        match &mut self.held {
            Held::Few(few) => few.update_batch(values)?,
            Held::Many(runs, _) => runs.add(values)?,
        }
        self.look()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        let rows = states.first().and_then(|lists| lists.as_list_opt::<i32>());
        let rows = rows.map_or(0, |lists| lists.values().len());
        if rows > FEW_ROWS {
            self.go_over()?;
        }
        match &mut self.held {
            Held::Few(few) => few.merge_batch(states)?,
            Held::Many(runs, _) => drop(add_states(runs, states)?),
        }
        self.look()
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        let (runs, fields) = match &mut self.held {
            Held::Few(few) => return few.state(),
            Held::Many(runs, fields) => (runs, fields.clone()),
        };
        let Some(mut merged) = runs.merged(1 + self.order.fields.len())? else {
            let orders = new_empty_array(&ArrowType::Struct(fields));
            return Ok(vec![self.order.nothing(), list(orders)]);
        };
        let orders = StructArray::try_new(fields, merged.split_off(1), None)?;
        Ok(vec![list(merged.remove(0)), list(Arc::new(orders))])
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        match &mut self.held {
            Held::Few(few) => few.evaluate(),
            Held::Many(runs, _) => Ok(match runs.merged(1)? {
                Some(mut merged) => list(merged.remove(0)),
                None => self.order.nothing(),
            }),
        }
    }

    fn size(&self) -> usize {
        let held = match &self.held {
            Held::Few(few) => few.size(),
            Held::Many(runs, _) => size_of::<Runs>() + runs.bytes(),
        };
        size_of_val(self) + held
    }
}
