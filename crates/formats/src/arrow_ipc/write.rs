//! Writes record batches as IPC files and streams.

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use thalweg_types::{Error, Result};

use crate::Format;
use crate::output::Output;
use crate::portable::Portable;

pub(crate) struct ArrowWriter {
    portable: Portable,
    form: Form,
}

enum Form {
    File(FileWriter<Output>),
    Stream(StreamWriter<Output>),
}

impl ArrowWriter {
    /// Writes the schema. Any format other than [`Format::ArrowStream`] becomes an IPC file.
    pub fn new(format: Format, out: Output, schema: &SchemaRef) -> Result<ArrowWriter> {
        let portable = Portable::new(schema, false);
        let form = match format {
            Format::ArrowStream => {
                Form::Stream(StreamWriter::try_new(out, &portable.schema).map_err(failed)?)
            }
            _ => Form::File(FileWriter::try_new(out, &portable.schema).map_err(failed)?),
        };
        Ok(ArrowWriter { portable, form })
    }

    /// Writes a batch of the schema that was given to [`new`](Self::new).
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = self.portable.convert(batch)?;
        match &mut self.form {
            Form::File(writer) => writer.write(&batch).map_err(failed),
            Form::Stream(writer) => writer.write(&batch).map_err(failed),
        }
    }

    /// Writes the end; returns the output.
    pub fn finish(self) -> Result<Output> {
        match self.form {
            Form::File(writer) => writer.into_inner().map_err(failed),
            Form::Stream(writer) => writer.into_inner().map_err(failed),
        }
    }
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("could not write Arrow: {error}"))
}
