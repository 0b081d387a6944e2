//! Answers to DataFusion that our operators have in common.
//!
//! These are macros because we cannot implement DataFusion's trait for all types. They stand in an
//! operator's `impl ExecutionPlan`, before its own methods.

use std::sync::Arc;

use datafusion::common::plan_err;
pub use datafusion::common::tree_node::TreeNodeRecursion;
pub use datafusion::error::Result;
pub use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
pub use datafusion::physical_plan::PlanProperties;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
pub use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;

/// A physical operator with its inputs, shared between plans.
pub type Plan = Arc<dyn ExecutionPlan>;

/// Options for replacing the children of a plan.
pub const RECOMPUTED: ReplaceChildrenOptions =
    ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);

/// The single input among the children of an operator over one input.
///
/// # Errors
/// If there is no child, or more than one.
pub fn input_of(children: Vec<Plan>) -> Result<Plan> {
    match <[Plan; 1]>::try_from(children) {
        Ok([input]) => Ok(input),
        Err(children) => plan_err!("an operator over one input was given {}", children.len()),
    }
}

/// For operators without expressions that other code may inspect.
#[doc(hidden)]
#[macro_export]
macro_rules! without_expressions {
    () => {
        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(
                &std::sync::Arc<dyn $crate::operator::PhysicalExpr>,
            ) -> $crate::operator::Result<$crate::operator::TreeNodeRecursion>,
        ) -> $crate::operator::Result<$crate::operator::TreeNodeRecursion> {
            Ok($crate::operator::TreeNodeRecursion::Continue)
        }
    };
}

/// For operators without inputs and without such expressions.
#[doc(hidden)]
#[macro_export]
macro_rules! without_inputs {
    () => {
        fn children(&self) -> Vec<&$crate::operator::Plan> {
            Vec::new()
        }

        $crate::without_expressions!();

        fn replace_children(
            self: std::sync::Arc<Self>,
            _: Vec<$crate::operator::Plan>,
            _: $crate::operator::ReplaceChildrenOptions,
        ) -> $crate::operator::Result<$crate::operator::Plan> {
            Ok(self)
        }

        fn with_new_children(
            self: std::sync::Arc<Self>,
            _: Vec<$crate::operator::Plan>,
        ) -> $crate::operator::Result<$crate::operator::Plan> {
            Ok(self)
        }
    };
}

/// For operators without such expressions over one input, which is the field of this name. Their
/// method `over` returns the same operator over another input.
#[doc(hidden)]
#[macro_export]
macro_rules! over_one_input {
    ($input:ident) => {
        fn children(&self) -> Vec<&$crate::operator::Plan> {
            vec![&self.$input]
        }

        $crate::without_expressions!();

        fn replace_children(
            self: std::sync::Arc<Self>,
            children: Vec<$crate::operator::Plan>,
            _: $crate::operator::ReplaceChildrenOptions,
        ) -> $crate::operator::Result<$crate::operator::Plan> {
            self.over($crate::operator::input_of(children)?)
        }

        fn with_new_children(
            self: std::sync::Arc<Self>,
            children: Vec<$crate::operator::Plan>,
        ) -> $crate::operator::Result<$crate::operator::Plan> {
            self.over($crate::operator::input_of(children)?)
        }
    };
}

/// For operators over one input that pass on its rows in their partitions and their order, and do
/// not benefit from more partitions.
#[doc(hidden)]
#[macro_export]
macro_rules! hands_on {
    ($input:ident) => {
        fn properties(&self) -> &std::sync::Arc<$crate::operator::PlanProperties> {
            self.$input.properties()
        }

        $crate::over_one_input!($input);

        fn maintains_input_order(&self) -> Vec<bool> {
            vec![true]
        }

        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            vec![false]
        }
    };
}

/// `Debug` and `DisplayAs` of an operator that EXPLAIN shows by its name alone.
#[doc(hidden)]
#[macro_export]
macro_rules! shown_by_name {
    ($operator:ident) => {
        impl std::fmt::Debug for $operator {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(stringify!($operator))
            }
        }

        impl datafusion::physical_plan::DisplayAs for $operator {
            fn fmt_as(
                &self,
                _: datafusion::physical_plan::DisplayFormatType,
                formatter: &mut std::fmt::Formatter<'_>,
            ) -> std::fmt::Result {
                formatter.write_str(stringify!($operator))
            }
        }
    };
}
