//! The same seed gives the same history: threads take turns in an order that follows from it.
#![cfg(feature = "shuttle")]

use thalweg_sim::{Plan, workloads};

#[test]
fn a_seed_gives_the_same_history_again() {
    for (name, workload) in workloads::ALL {
        let report = |seed| workloads::run(&Plan::faulty(seed), workload).unwrap();
        let reports = [report(1), report(2)];
        assert_eq!([report(1), report(2)], reports, "{name}");
        assert_ne!(reports[0].trace, reports[1].trace, "{name}");
    }
}
