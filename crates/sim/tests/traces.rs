//! The same seed gives the same history: threads take turns in an order that follows from it.
#![cfg(feature = "shuttle")]

use std::collections::BTreeSet;

use thalweg_sim::{Plan, cases, workloads};

#[test]
fn a_seed_gives_the_same_history_again() {
    for (name, workload) in workloads::ALL {
        let report = |seed| workloads::run(&Plan::faulty(seed), workload).unwrap();
        let traces: BTreeSet<u64> = (0..cases(3))
            .map(|seed| {
                let first = report(seed);
                assert_eq!(report(seed), first, "{name}, seed {seed}");
                first.trace
            })
            .collect();
        assert_eq!(traces.len() as u64, cases(3), "{name}: others follow from other seeds");
    }
}
