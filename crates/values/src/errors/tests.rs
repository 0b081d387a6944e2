use super::*;

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
        let error_text = from_datafusion(carried, "insert");
        assert_eq!(
            (error_text.state(), error_text.message(), error_text.detail()),
            (SqlState::UNIQUE_VIOLATION, "duplicate key", Some("a = 1"))
        );
    }
}

#[test]
fn internal_errors_come_without_pleas() {
    let error = DataFusionError::Internal("the plan has no schema".to_string());
    let error_text = from_datafusion(error, "");
    assert_eq!((error_text.state().0, error_text.message()), ("XX000", "the plan has no schema"));
}

#[test]
fn memory_that_runs_out_names_the_operator() {
    let message = "Failed to allocate additional 1.0 MB for GroupedHashAggregateStream[0] (id: 3) \
                   with 0.0 B already allocated for this reservation";
    let error_text = from_datafusion(DataFusionError::ResourcesExhausted(message.to_string()), "");
    assert_eq!(error_text.state(), SqlState::OUT_OF_MEMORY);
    assert_eq!(error_text.message(), "out of memory in GroupedHashAggregateStream");
}

/// As what writes spill files wraps it: the system's error in DataFusion's, that in one of the
/// system again, and that in Arrow's.
fn spilled(error: std::io::Error) -> Vec<DataFusionError> {
    let wrapped = |error| std::io::Error::other(DataFusionError::IoError(error));
    let again = |error: &std::io::Error| match error.get_ref() {
        Some(message) => std::io::Error::other(message.to_string()),
        None => error.kind().into(),
    };
    let arrow = |error| DataFusionError::ArrowError(Box::new(ArrowError::from(error)), None);
    vec![
        DataFusionError::IoError(again(&error)),
        arrow(again(&error)),
        arrow(wrapped(again(&error))).context("while sorting"),
        DataFusionError::IoError(wrapped(error)),
    ]
}

#[test]
fn spill_files_that_find_no_room_say_which_setting_gives_more() {
    use std::io::{Error as IoError, ErrorKind};
    let limit = "The used disk space during the spilling process has exceeded the allowable limit \
                 of 100.0 GB. Please try increasing the config: `…`.";
    for (error, setting) in [
        (IoError::from(ErrorKind::StorageFull), "database.spill_directory"),
        (IoError::from(ErrorKind::QuotaExceeded), "database.spill_directory"),
        (IoError::other(limit), "database.spill_limit"),
    ] {
        for wrapped in spilled(error) {
            let error_text = from_datafusion(wrapped, "");
            assert_eq!(error_text.state(), SqlState::DISK_FULL, "{error_text:?}");
            assert_eq!(error_text.message(), "no room for temporary files");
            assert!(error_text.hint().is_some_and(|hint| hint.contains(setting)), "{error_text:?}");
        }
    }
    let error_text = from_datafusion(spilled(ErrorKind::TimedOut.into()).remove(1), "");
    assert_eq!(error_text.state(), SqlState::IO_ERROR);
}
