//! Functions of ours in the place of DataFusion's.
//!
//! A session finds functions by their names and aliases. Workers copy the functions of a session
//! into one for each task: they get each function under all of its names, in no order. If two
//! functions shared a name, either of them could end up with it.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

pub(crate) trait Named {
    fn names(&self) -> impl Iterator<Item = &str>;
}

impl Named for ScalarUDF {
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name()).chain(self.aliases().iter().map(String::as_str))
    }
}

impl Named for AggregateUDF {
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name()).chain(self.aliases().iter().map(String::as_str))
    }
}

/// Adds functions, and removes all others that share a name with one of them.
pub(crate) fn replace<F: Named>(functions: &mut Vec<Arc<F>>, ours: Vec<Arc<F>>) {
    let names: HashSet<&str> = ours.iter().flat_map(|function| function.names()).collect();
    functions.retain(|function| !function.names().any(|name| names.contains(name)));
    drop(names);
    functions.extend(ours);
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use datafusion::execution::session_state::SessionStateBuilder;

    use super::*;

    fn each_name_means_one<F: Named>(functions: &HashMap<String, Arc<F>>) {
        for function in functions.values() {
            for name in function.names() {
                assert!(Arc::ptr_eq(&functions[name], function), "{name} means two functions");
            }
        }
    }

    #[test]
    fn no_name_means_two_functions() {
        let state = crate::configure(SessionStateBuilder::new()).build();
        each_name_means_one(state.scalar_functions());
        each_name_means_one(state.aggregate_functions());
    }

    #[test]
    fn none_goes_for_a_name_that_another_one_has() {
        let theirs = SessionStateBuilder::new().with_default_features().build();
        let ours = crate::configure(SessionStateBuilder::new()).build();
        for name in theirs.scalar_functions().values().map(|function| function.name()) {
            assert!(ours.scalar_functions().contains_key(name), "{name}");
        }
        for name in theirs.aggregate_functions().values().map(|function| function.name()) {
            assert!(ours.aggregate_functions().contains_key(name), "{name}");
        }
    }
}
