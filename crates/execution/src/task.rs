//! The task context of a plan.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionConfig;

/// A copy of the task with another configuration.
#[must_use]
pub fn reconfigured(task: &TaskContext, config: SessionConfig) -> TaskContext {
    TaskContext::new(
        task.task_id(),
        task.session_id(),
        config,
        task.scalar_functions().clone(),
        task.higher_order_functions().clone(),
        task.aggregate_functions().clone(),
        task.window_functions().clone(),
        task.runtime_env(),
    )
}

/// The context for a plan that contains its functions: none is looked up by name any more.
pub fn without_functions(
    session_id: String,
    config: &SessionConfig,
    runtime: Arc<RuntimeEnv>,
) -> TaskContext {
    TaskContext::new(
        None,
        session_id,
        config.clone(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        runtime,
    )
}
