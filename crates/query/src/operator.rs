//! What our operators answer alike when DataFusion asks them.
//!
//! A blanket implementation of DataFusion's trait is not ours to give, so these are macros. They
//! stand in an operator's `impl ExecutionPlan`, ahead of what it says for itself.

use std::sync::Arc;

use datafusion::common::plan_err;
pub use datafusion::common::tree_node::TreeNodeRecursion;
pub use datafusion::error::Result;
pub use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
pub use datafusion::physical_plan::PlanProperties;
pub use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;

pub type Plan = Arc<dyn ExecutionPlan>;

/// The input among the children that an operator over one input is given.
///
/// # Errors
/// Where there are none, or several.
pub fn input_of(children: Vec<Plan>) -> Result<Plan> {
    match <[Plan; 1]>::try_from(children) {
        Ok([input]) => Ok(input),
        Err(children) => plan_err!("an operator over one input was given {}", children.len()),
    }
}

/// Of operators without expressions that anybody else may look at.
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

/// Of operators without inputs, and without such expressions.
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

/// Of operators over one input, which is the field of this name, and without such expressions.
/// Their method `over` gives the same operator over another input.
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

/// Of operators over one input that hand on its rows, in their partitions and their order, and do
/// not gain from more partitions.
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
