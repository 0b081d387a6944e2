//! Limits the size of a statement while it is planned, in operators and grouping sets. Its memory
//! counts like that of a running statement (`executor::Executor::counted`).

mod grouping_sets;

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::LogicalPlan;
use thalweg_env::{Clock as _, RealClock};
use thalweg_types::{Error, SqlState};
use thalweg_values::errors::external;

pub use self::grouping_sets::check as check_grouping_sets;

/// Maximum number of operators of a plan, each counted as often as it runs. Passes take time and
/// memory for each.
const OPERATORS_MAX: usize = 32_768;

/// If planning has taken this long, the size of the plan is checked.
const LONG: Duration = Duration::from_millis(10);

/// # Errors
/// As [`check_size`], if planning has taken long enough for a check.
pub(crate) fn check_growth(plan: &LogicalPlan) -> PlanResult<()> {
    let is_long = |since: &Arc<RealClock>| since.monotonic() > LONG;
    match CURRENT.with_borrow(|since| since.as_ref().is_some_and(is_long)) {
        true => check_size(plan),
        false => Ok(()),
    }
}

/// # Errors
/// 54001 if a plan has more operators than can be planned in time.
pub fn check_size(plan: &LogicalPlan) -> PlanResult<()> {
    let mut operators = 0_usize;
    plan.apply_with_subqueries(|_| {
        operators += 1;
        Ok(match operators > OPERATORS_MAX {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    if operators <= OPERATORS_MAX {
        return Ok(());
    }
    let message = format!("the statement needs a plan of more than {OPERATORS_MAX} operators");
    let error = Error::new(SqlState::STATEMENT_TOO_COMPLEX, message);
    Err(external(error.with_hint(
        "A WITH query and a view count as often as they are used. Keep what is used often in a \
         temporary table.",
    )))
}

thread_local! {
    /// The clock of the planning on this thread.
    static CURRENT: RefCell<Option<Arc<RealClock>>> = const { RefCell::new(None) };
}

/// Plans, and measures the time. The clock of an enclosing plan continues.
///
/// # Errors
/// Errors of the work.
pub async fn timed<T>(work: impl Future<Output = PlanResult<T>>) -> PlanResult<T> {
    let mut work = pin!(work);
    let since = Arc::new(RealClock::new());
    poll_fn(|context| {
        let outer = CURRENT.with_borrow(Option::clone);
        let _before = Before(CURRENT.replace(Some(outer.unwrap_or_else(|| Arc::clone(&since)))));
        work.as_mut().poll(context)
    })
    .await
}

/// Restores the thread's previous clock when this is dropped.
struct Before(Option<Arc<RealClock>>);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

#[cfg(test)]
mod tests;
