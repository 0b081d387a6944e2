//! Fuzz targets for PostgreSQL's protocol; see [`crate::fuzzing`].

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use bytes::{Bytes, BytesMut};
use thalweg_formats::postgres::{
    BinaryCopyDecoder, RowEncoder, ValueFormat, decode_parameter, field_of_oid,
};

use super::message::{self, Message};
use super::options::assignments;
use super::startup::{self, Hello};

/// Message limit that inputs of a few hundred bytes can exceed.
const MESSAGE_BYTES_MAX: usize = 256;
const COPY_BATCH_ROWS: usize = 3;

/// OIDs of parameter types, including arrays and unknown ones.
const PARAMETER_TYPES: [u32; 30] = [
    16, 17, 18, 19, 20, 21, 23, 25, 26, 700, 701, 114, 1043, 1082, 1083, 1114, 1184, 1186, 1700,
    2950, 3802, 1000, 1007, 1009, 1016, 1022, 1231, 1185, 2951, 0,
];

/// Messages before a session exists, and responses of the SCRAM exchange.
pub(crate) fn startup(bytes: &[u8]) -> usize {
    let mut input = BytesMut::from(bytes);
    let mut taken = 0;
    while let Ok(Some((code, body))) = startup::split(&mut input) {
        if let Ok(hello) = Hello::parse(code, &body) {
            let options = hello.settings.values().filter_map(|value| assignments(value).ok());
            taken += 1 + options.map(|found| found.len()).sum::<usize>();
        }
        taken += usize::from(startup::initial(body).is_ok());
    }
    taken
}

pub(crate) fn startup_seeds() -> Vec<Vec<u8>> {
    let message = |code: u32, body: &[u8]| {
        let mut message = (body.len() as u32 + 8).to_be_bytes().to_vec();
        message.extend_from_slice(&code.to_be_bytes());
        message.extend_from_slice(body);
        message
    };
    let sasl = b"SCRAM-SHA-256\0\0\0\0\x0en,,n=,r=abcde0";
    vec![
        message(3 << 16, b"user\0eve\0database\0d\0options\0-c a=b --c=d\0\0"),
        message(3 << 16 | 2, b"user\0eve\0_pq_.x\0on\0\0"),
        message(80_877_103, sasl),
    ]
}

/// Messages of a session.
pub(crate) fn messages(bytes: &[u8]) -> usize {
    let mut input = BytesMut::from(bytes);
    let mut taken = 0;
    while let Ok(Some((kind, body))) = message::split(&mut input, MESSAGE_BYTES_MAX) {
        let Ok(message) = Message::parse(kind, body) else { continue };
        taken += 1;
        if let Message::Bind(bind) = message {
            let formats = bind.formats.of(bind.values.len());
            assert!(formats.is_err() || formats.is_ok_and(|all| all.len() == bind.values.len()));
            taken += usize::from(bind.results.of(3).is_ok());
        }
    }
    taken
}

pub(crate) fn message_seeds() -> Vec<Vec<u8>> {
    let bodies: [(u8, &[u8]); 9] = [
        (b'Q', b"SELECT 1; SELECT 'two'\0"),
        (b'P', b"s\0SELECT $1, $2\0\0\x02\0\0\0\x17\0\0\0\x19"),
        (b'B', b"p\0s\0\0\x02\0\x01\0\0\0\x02\0\0\0\x02hi\xff\xff\xff\xff\0\x01\0\0"),
        (b'D', b"Sname\0"),
        (b'E', b"p\0\0\0\0\x05"),
        (b'C', b"Pname\0"),
        (b'S', b""),
        (b'd', b"1\tone\n"),
        (b'f', b"no more\0"),
    ];
    let framed = bodies.map(|(kind, body)| {
        let mut message = vec![kind];
        message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        message.extend_from_slice(body);
        message
    });
    let mut seeds = framed.to_vec();
    seeds.push(framed.concat());
    seeds
}

/// A parameter: its type, its format, and its bytes. A decoded value must be encodable again.
pub(crate) fn parameters(bytes: &[u8]) -> usize {
    let [kind, form, value @ ..] = bytes else { return 0 };
    let oid = PARAMETER_TYPES[usize::from(*kind) % PARAMETER_TYPES.len()];
    let Some(field) = field_of_oid(oid) else { return 0 };
    let form = if form % 2 == 0 { ValueFormat::Text } else { ValueFormat::Binary };
    let Ok(array) = decode_parameter(&field, form, Some(value)) else { return 0 };
    // Numerics bring their own precision and scale.
    let field = field.as_ref().clone().with_data_type(array.data_type().clone());
    let schema: SchemaRef = Arc::new(Schema::new(vec![field]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![array]);
    let batch = batch.expect("a value is of its field's type");
    for form in [ValueFormat::Text, ValueFormat::Binary] {
        let encoder = RowEncoder::new(Arc::clone(&schema), vec![form]);
        let mut rows = encoder.batch(&batch).expect("parameters are of types that are sent");
        // Encoding may fail only for a row that is too long.
        let _ = rows.data_row(0, &mut Vec::new());
    }
    1
}

pub(crate) fn parameter_seeds() -> Vec<Vec<u8>> {
    let texts: [(u32, &str); 16] = [
        (16, "true"),
        (17, "\\x00ff"),
        (20, "-9000000000"),
        (23, "42"),
        (25, "héllo"),
        (701, "1.5e300"),
        (114, "{\"a\": [1, null]}"),
        (1082, "2024-02-29"),
        (1083, "23:59:59.999999"),
        (1114, "2024-01-01 00:00:00.5"),
        (1184, "2024-01-01 00:00:00+02"),
        (1186, "1 year -2 mons 3 days 04:05:06"),
        (1700, "-123456789.0123456789"),
        (2950, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        (1007, "{1,NULL,3}"),
        (1009, "{\"a b\",c,NULL}"),
    ];
    // A one-dimensional array of two integers, the second NULL; a two-dimensional array with an
    // empty dimension.
    let integers = b"\0\0\0\x01\0\0\0\x01\0\0\0\x17\0\0\0\x02\0\0\0\x01\
        \0\0\0\x04\0\0\0\x2a\xff\xff\xff\xff";
    let none = b"\0\0\0\x02\0\0\0\0\0\0\0\x17\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x01";
    let binaries: [(u32, &[u8]); 9] = [
        (16, b"\x01"),
        (23, b"\0\0\0\x2a"),
        (701, b"\x3f\xf0\0\0\0\0\0\0"),
        (1082, b"\0\0\x22\x3d"),
        (1184, b"\0\x02\xa5\x0d\x7f\x2a\0\0"),
        (1186, b"\0\0\0\0\x3b\x9a\xca\0\0\0\0\x03\0\0\0\x02"),
        // 123.45 as two base-10,000 digits, one before the point, with a display scale of two.
        (1700, b"\0\x02\0\0\0\0\0\x02\0\x7b\x11\x94"),
        (1007, integers),
        (1007, none),
    ];
    let seed = |oid: u32, form: u8, value: &[u8]| {
        let kind = PARAMETER_TYPES.iter().position(|known| *known == oid);
        let kind = kind.expect("seeds are of types that are there");
        [&[kind as u8, form], value].concat()
    };
    let texts = texts.iter().map(|(oid, text)| seed(*oid, 0, text.as_bytes()));
    texts.chain(binaries.iter().map(|(oid, bytes)| seed(*oid, 1, bytes))).collect()
}

/// Rows of a binary `COPY`, in two pieces.
pub(crate) fn copies(bytes: &[u8]) -> usize {
    let fields = [DataType::Int32, DataType::Utf8View, DataType::Float64];
    let fields = fields.map(|data_type| FieldRef::new(Field::new("c", data_type, true)));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let mut decoder = BinaryCopyDecoder::new(schema, COPY_BATCH_ROWS);
    let bytes = Bytes::copy_from_slice(bytes);
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    let mut rows = 0;
    for piece in [first, rest] {
        let Ok(batches) = decoder.push(piece) else { return rows };
        rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    }
    let batches = decoder.finish().unwrap_or_default();
    rows + batches.iter().map(RecordBatch::num_rows).sum::<usize>()
}

pub(crate) fn copy_seeds() -> Vec<Vec<u8>> {
    let header = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    let row = b"\0\x03\0\0\0\x04\0\0\0\x07\0\0\0\x02hi\xff\xff\xff\xff";
    let end = b"\xff\xff";
    vec![[&header[..], row, end].concat(), [&header[..], row, row, row, row, end].concat()]
}
