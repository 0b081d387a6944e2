use super::*;
use crate::testing::{expect_errors, run};

#[test]
fn an_error_of_our_own_comes_back_as_it_was() {
    let own = || Error::new(SqlState::UNIQUE_VIOLATION, "duplicate key").with_detail("a = 1");
    let external = || DataFusionError::External(Box::new(own()));
    for carried in [
        external(),
        external().context("while inserting"),
        DataFusionError::Shared(std::sync::Arc::new(external())),
        DataFusionError::External(Box::new(external())),
        DataFusionError::ArrowError(
            Box::new(ArrowError::ExternalError(Box::new(external()))),
            None,
        ),
    ] {
        let told = from_datafusion(carried, "insert");
        assert_eq!(
            (told.state(), told.message(), told.detail()),
            (SqlState::UNIQUE_VIOLATION, "duplicate key", Some("a = 1"))
        );
    }
}

#[test]
fn internal_errors_come_without_pleas() {
    let error = DataFusionError::Internal("the plan has no schema".to_string());
    let told = from_datafusion(error, "");
    assert_eq!((told.state().0, told.message()), ("XX000", "the plan has no schema"));
}

#[test]
fn memory_that_runs_out_names_the_operator() {
    let message = "Failed to allocate additional 1.0 MB for GroupedHashAggregateStream[0] (id: 3) \
                   with 0.0 B already allocated for this reservation";
    let told = from_datafusion(DataFusionError::ResourcesExhausted(message.to_string()), "");
    assert_eq!(told.state(), SqlState::OUT_OF_MEMORY);
    assert_eq!(told.message(), "out of memory in GroupedHashAggregateStream");
}
