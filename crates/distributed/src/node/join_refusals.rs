//! Messages of a worker about gateways that it cannot join.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use thalweg_types::{Error, SqlState};

/// Reasons already reported. The worker tries again every second, so each reason is reported once
/// until a gateway admits the worker.
pub(super) struct Refusals {
    worker: u64,
    said: HashMap<SocketAddr, HashSet<String>>,
}

impl Refusals {
    pub(super) fn new(worker: u64) -> Refusals {
        Refusals { worker, said: HashMap::new() }
    }

    /// Records the result of an attempt. Returns the message to report, if it is new.
    pub(super) fn note(&mut self, gateway: SocketAddr, failed: Option<&Error>) -> Option<String> {
        let Some(error) = failed else {
            self.said.remove(&gateway);
            return None;
        };
        let is_new = self.said.entry(gateway).or_default().insert(error.message().to_owned());
        let (worker, advice) = (self.worker, what_to_do(error));
        is_new.then(|| {
            format!(
                "Worker {worker} cannot join the gateway at {gateway} and goes on trying \
                 ({error}): {advice}"
            )
        })
    }
}

fn what_to_do(error: &Error) -> &str {
    match error.hint() {
        // The hint of a link error speaks of a worker's rows, so it does not fit here.
        Some(hint) if error.state() != SqlState::CONNECTION_FAILURE => hint,
        _ => {
            "see that a gateway listens there for nodes, and that both have the same \
             --cluster-secret, or certificates of one authority."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_said_once_until_the_worker_is_let_in() {
        let mut refusals = Refusals::new(7);
        let gateways = [1, 2].map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
        let away = Error::new(SqlState::CONNECTION_FAILURE, "nobody is there")
            .with_hint("Its rows are not reachable.");
        let shown = refusals.note(gateways[0], Some(&away)).unwrap();
        assert!(shown.starts_with("Worker 7 cannot join the gateway at 10.0.0.1:1 "), "{shown}");
        assert!(shown.contains("nobody is there") && shown.contains("--cluster-secret"), "{shown}");
        assert_eq!(refusals.note(gateways[0], Some(&away)), None);
        // Reasons are recorded for each gateway separately.
        assert!(refusals.note(gateways[1], Some(&away)).is_some());
        let open = Error::new(SqlState::INVALID_AUTHORIZATION, "it is open").with_hint("Close it.");
        let shown = refusals.note(gateways[0], Some(&open)).unwrap();
        assert!(shown.ends_with("(it is open): Close it."), "{shown}");
        assert_eq!(refusals.note(gateways[0], Some(&away)), None);
        assert_eq!(refusals.note(gateways[0], None), None);
        assert!(refusals.note(gateways[0], Some(&open)).is_some(), "it was in meanwhile");
    }
}
