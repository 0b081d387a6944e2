//! Metrics of storage faults, updated just before the page is rendered.

use metrics::{Gauge, describe_gauge, gauge};
use thalweg_query::{StorageFault, StorageReason};

/// One gauge for each reason why the storage may not be healthy.
pub(super) struct StorageMetrics(Vec<(StorageReason, Gauge)>);

impl StorageMetrics {
    pub(super) fn new() -> StorageMetrics {
        describe_gauge!(
            "thalweg_storage_healthy",
            "1 while nothing fails for this reason, 0 while something does."
        );
        let gauges = StorageReason::ALL.map(|reason| {
            let gauge = gauge!("thalweg_storage_healthy", "reason" => reason.name());
            (reason, gauge)
        });
        StorageMetrics(gauges.into())
    }

    pub(super) fn set(&self, faults: &[StorageFault]) {
        for (reason, gauge) in &self.0 {
            let is_healthy = faults.iter().all(|fault| fault.reason != *reason);
            gauge.set(f64::from(u8::from(is_healthy)));
        }
    }
}
