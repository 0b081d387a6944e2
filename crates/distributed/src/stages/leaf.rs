//! The leaves of stages: the part of a scan that each task reads from its own worker.
//!
//! At the gateway a leaf only carries a fragment and cannot run. It is serialized within its task
//! like a fragment, and is decoded into the fragment's operators on the worker. Equivalence
//! barriers ([`EquivalenceBarrier`]) are serialized beside leaves, since they are the only
//! operators of ours that exist on both sides.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, plan_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use prost::Message as _;
use thalweg_execution::equivalence_barriers::{EquivalenceBarrier, HiddenProperties};
use thalweg_protocol::cluster as wire;
use thalweg_values::errors::external;

use super::Plan;
use crate::codec::{self, Reader};
use crate::scan::RemoteScan;
use crate::worker::Member;
use crate::{operators, rows};

/// One task's part of a scan.
pub(super) struct Leaf {
    /// `None` if the task's worker has none of the rows.
    fragment: Option<wire::Fragment>,
    properties: Arc<PlanProperties>,
}

/// The parts of a scan, one for each worker.
pub(super) fn leaves(scan: &RemoteScan, workers: usize) -> Result<Vec<Plan>> {
    let mut properties = PlanProperties::clone(scan.properties());
    properties.partitioning = Partitioning::UnknownPartitioning(1);
    let properties = Arc::new(properties);
    let parts = scan.parts(workers).map_err(external)?.into_iter();
    let leaf = |fragment| Arc::new(Leaf { fragment, properties: Arc::clone(&properties) }) as Plan;
    Ok(parts.map(leaf).collect())
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Leaf")
    }
}

impl DisplayAs for Leaf {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Leaf")
    }
}

impl ExecutionPlan for Leaf {
    thalweg_execution::without_inputs!();

    fn name(&self) -> &'static str {
        "Leaf"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        plan_err!("a part of a scan runs on its worker only")
    }
}

/// Serializes leaves and equivalence barriers.
pub(super) struct LeafCodec {
    /// The worker whose rows decoded leaves read; `None` at the gateway.
    member: Option<Arc<Member>>,
}

impl LeafCodec {
    pub(super) fn writing() -> LeafCodec {
        LeafCodec { member: None }
    }

    pub(super) fn reading(member: &Arc<Member>) -> LeafCodec {
        LeafCodec { member: Some(Arc::clone(member)) }
    }
}

impl fmt::Debug for LeafCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeafCodec")
    }
}

impl PhysicalExtensionCodec for LeafCodec {
    fn try_decode(
        &self,
        message: &[u8],
        inputs: &[Plan],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Plan> {
        let leaf = wire::Leaf::decode(message)
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        if let Some(hides) = hidden_by(leaf.veil()) {
            let [input] = inputs else { return plan_err!("a veil is over one input") };
            return Ok(Arc::new(EquivalenceBarrier::new(Arc::clone(input), hides)?));
        }
        let (columns, _) = rows::decode(&leaf.columns).map_err(external)?;
        let Some(member) = &self.member else { return plan_err!("there are no rows here") };
        let Some(fragment) = &leaf.fragment else { return Ok(Arc::new(EmptyExec::new(columns))) };
        let (fields, _) = rows::decode(&fragment.fields).map_err(external)?;
        let values = codec::values(&fragment.values).map_err(external)?;
        let reader = Reader::new(&fields, &fragment.literals, values).map_err(external)?;
        let shards = member.together(&fragment.together).map_err(external)?;
        let plan = operators::of_fragment(fragment, fragment.place_base, &reader, &shards)?;
        let types = |plan: &Plan| -> Vec<_> {
            plan.schema().fields().iter().map(|field| field.data_type().clone()).collect()
        };
        let (operator_metrics, wanted) = (types(&plan), columns.fields());
        let fits = operator_metrics.len() == wanted.len()
            && operator_metrics.iter().zip(wanted).all(|(operator_metrics, field)| {
                operator_metrics.equals_datatype(field.data_type())
            });
        match fits {
            true => Ok(plan),
            false => plan_err!("a scan has {operator_metrics:?} where {wanted:?} were asked for"),
        }
    }

    fn try_encode(
        &self,
        node: Plan,
        message: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let leaf = if let Some(leaf) = node.downcast_ref::<Leaf>() {
            let columns = rows::encode(&leaf.schema(), &[]).map_err(external)?;
            wire::Leaf { fragment: leaf.fragment.clone(), columns, ..wire::Leaf::default() }
        } else if let Some(barrier) = node.downcast_ref::<EquivalenceBarrier>() {
            wire::Leaf { veil: form_of(barrier.hides()).into(), ..wire::Leaf::default() }
        } else {
            return plan_err!("{} has no form to travel in", node.name());
        };
        leaf.encode(message).map_err(|error| DataFusionError::External(Box::new(error)))
    }
}

fn form_of(hides: HiddenProperties) -> wire::Veil {
    match hides {
        HiddenProperties::Orders => wire::Veil::Orders,
        HiddenProperties::Constants => wire::Veil::Constants,
        HiddenProperties::All => wire::Veil::All,
    }
}

/// The properties that a barrier hides; `None` if the message is no barrier.
fn hidden_by(barrier: wire::Veil) -> Option<HiddenProperties> {
    match barrier {
        wire::Veil::None => None,
        wire::Veil::Orders => Some(HiddenProperties::Orders),
        wire::Veil::Constants => Some(HiddenProperties::Constants),
        wire::Veil::All => Some(HiddenProperties::All),
    }
}
