use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::logical_expr::LogicalPlanBuilder;
use futures::executor::block_on;

use super::*;

/// A plan that uses another one twice at each of so many levels.
fn doubled(levels: usize) -> LogicalPlan {
    let mut plan = LogicalPlanBuilder::empty(true).build().unwrap();
    for _ in 0..levels {
        let both = LogicalPlanBuilder::from(plan.clone()).union(plan).unwrap();
        plan = both.build().unwrap();
    }
    plan
}

#[test]
fn operators_count_as_often_as_they_are_used() {
    assert!(check_size(&doubled(10)).is_ok());
    let error = from_datafusion(check_size(&doubled(40)).unwrap_err(), "");
    assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX);
}

/// Tests have no allocator that counts: the count is set as if the work had taken so much.
#[test]
fn memory_is_reserved_for_as_long_as_work_takes_it() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(8 << 20));
    let taking = |bytes: isize| {
        let pool = &pool;
        async move {
            CURRENT.with_borrow(|taken| taken.as_ref().unwrap().counted.lock().before = bytes);
            check().map_err(external)?;
            Ok(pool.reserved())
        }
    };
    let within = |bytes| block_on(within_memory(&pool, taking(bytes)));
    assert_eq!(within(1_000).unwrap(), 0);
    assert!(within(5 << 20).unwrap() >= 5 << 20);
    assert_eq!(pool.reserved(), 0);
    let error = from_datafusion(within(9 << 20).unwrap_err(), "");
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
    assert_eq!(pool.reserved(), 0);
    assert!(check().is_ok(), "nothing is planned any more");
}
