//! Relaying rows that workers encode for a client.
//!
//! If a plan is nothing but a scan whose rows come in any order, the gateway has nothing to
//! compute. Its fragment then names the client's format, and the gateway forwards the workers'
//! parts as they arrive, or in the mode of the session ([`FanIn`]), without decoding them.
//!
//! If there is a limit over the rows of all workers ([`window`]), the rows of parts are counted,
//! and only the part with the limit in it is cut.

mod window;

use std::future::poll_fn;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use futures::stream::{self, BoxStream, select_all};
use futures::{StreamExt as _, TryFutureExt as _};
use thalweg_cluster::link::Answer;
use thalweg_cluster::relay::{Part, Parts};
use thalweg_execution::row_forms::{Encoded, EncodedStream, RowForm};
use thalweg_formats::postgres::ValueFormat;
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::row_form::Kind;
use thalweg_query::FanIn;
use thalweg_types::{Error, Result};
use tokio::sync::mpsc;

use self::window::Cutting;
pub(crate) use self::window::Window;
use crate::copy_options;
use crate::gateway::Shared;
use crate::rows;
use crate::scan::{Opening, RemoteScan};

/// The scan of a plan that consists of nothing else, and the window of its rows.
pub(crate) fn only_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<(&RemoteScan, Window)> {
    let (mut window, mut plan) = (Window::default(), plan);
    if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        window = Window::new(limit.skip(), limit.fetch());
        plan = limit.input();
    }
    if let Some(gather) = plan.downcast_ref::<CoalescePartitionsExec>() {
        window = window.of_first(gather.fetch());
        plan = gather.input();
    }
    Some((plan.downcast_ref::<RemoteScan>()?, window))
}

/// The rows of a scan in a client's format, limited to a window. Returns `None` if the format
/// cannot be encoded by workers.
pub(crate) fn encoded(
    scan: &RemoteScan,
    window: Window,
    described: &SchemaRef,
    form: &RowForm,
) -> Result<Option<EncodedStream>> {
    let kind = match form {
        RowForm::Batches => return Ok(None),
        RowForm::Flight => Kind::Flight(wire::FlightMessages {}),
        RowForm::DataRows(forms) => {
            let Some(forms) = forms.of(described.fields().len()) else { return Ok(None) };
            let binary = forms.iter().map(|form| *form == ValueFormat::Binary).collect();
            Kind::DataRows(wire::DataRows { binary })
        }
        RowForm::CopyData(options) => match copy_options::to_wire(options) {
            Some(copy) => Kind::CopyData(copy),
            None => return Ok(None),
        },
    };
    let cutting = match form {
        RowForm::Flight => Cutting::of_flight(described),
        _ => Cutting::OfMessages,
    };
    let form = wire::RowForm { kind: Some(kind), columns: rows::encode(described, &[])? };
    let questions = scan.questions(form)?;
    let parts = match scan.fan_in() {
        FanIn::Hybrid => select_all(ask_all(scan.shared(), questions).map(parts)).boxed(),
        FanIn::Sync => in_turns(scan.shared(), questions),
        FanIn::Async => queued(scan.shared(), questions),
    };
    let parts = match window.is_all() {
        true => parts,
        false => window.over(parts, cutting),
    };
    Ok(Some(parts.map(|part| part.map(of_part)).boxed()))
}

fn of_part(Part { rows, bytes, pieces }: Part) -> Encoded {
    Encoded { rows, bytes, pieces }
}

type Questions = Vec<(usize, wire::Fragment)>;
type PartStream = BoxStream<'static, Result<Part>>;

/// Asks all workers at once.
fn ask_all(shared: &Arc<Shared>, questions: Questions) -> impl Iterator<Item = Opening> {
    questions.into_iter().map(|(place, question)| {
        let asked = Arc::clone(shared);
        shared.spawn(async move { asked.ask_rows(place, question).await })
    })
}

/// The parts of one worker. Dropping the stream cancels the worker's work.
fn parts(opening: Opening) -> PartStream {
    let opened = async move { opening.await.map_err(|died| Error::internal(died.to_string()))? };
    opened.map_ok(parts_of).try_flatten_stream().boxed()
}

fn parts_of(answer: Answer) -> PartStream {
    stream::try_unfold(Parts::new(answer), |mut parts| async {
        let part = poll_fn(|context| parts.poll_part(context)).await.transpose()?;
        Ok(part.map(|part| (part, parts)))
    })
    .boxed()
}

/// Asks one worker after the other, and reads one after the other.
fn in_turns(shared: &Arc<Shared>, questions: Questions) -> PartStream {
    let asked = Arc::clone(shared);
    let opening = shared.spawn(async move {
        let mut answers = Vec::with_capacity(questions.len());
        for (place, question) in questions {
            answers.push(asked.ask_rows(place, question).await?);
        }
        Ok::<_, Error>(answers)
    });
    let opened = async move { opening.await.map_err(|died| Error::internal(died.to_string()))? };
    let parts = opened.map_ok(|answers| stream::iter(answers).flat_map(parts_of));
    parts.try_flatten_stream().boxed()
}

/// Asks all workers at once, and puts their parts into one queue.
fn queued(shared: &Arc<Shared>, questions: Questions) -> PartStream {
    let (sender, queue) = mpsc::channel(1);
    let pumps: Vec<_> = ask_all(shared, questions)
        .map(|opening| {
            let (mut parts, sender) = (parts(opening), sender.clone());
            shared.spawn(async move {
                while let Some(part) = parts.next().await {
                    if sender.send(part).await.is_err() {
                        return;
                    }
                }
            })
        })
        .collect();
    drop(sender);
    // Dropping the stream ends the pumps.
    stream::unfold((queue, pumps), |(mut queue, mut pumps)| async {
        if let Some(part) = queue.recv().await {
            return Some((part, (queue, pumps)));
        }
        // If a pump panicked, its rows are missing, so this is not the end.
        while let Some(pump) = pumps.pop() {
            if let Err(died) = pump.await {
                return Some((Err(Error::internal(died.to_string())), (queue, Vec::new())));
            }
        }
        None
    })
    .boxed()
}
