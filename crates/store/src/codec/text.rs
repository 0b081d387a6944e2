//! Encodes many texts: their lengths, then their bytes in one piece, compressed where that pays.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, GenericByteViewArray, StringArray,
    StringViewArray,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ByteViewType, DataType as ArrowType};
use thalweg_types::Result;

use super::input::{Input, put_varint};
use super::{damaged, integers};

/// Number of bytes that are compressed as a trial.
const TRIAL_BYTES: usize = 16 << 10;

/// Minimum number of bytes to compress.
const COMPRESSED_BYTES_MIN: usize = 1 << 10;

/// Below this many bytes, as in a group of rows, a glance at the first ones decides whether to run
/// the trial, which would take longer than the rest of the encoding.
const GLANCE_BELOW_BYTES: usize = 256 << 10;
const GLANCE_BYTES: usize = 1 << 10;

/// Largest compression ratio of LZ4; bounds what damaged bytes can make the decoder allocate.
const COMPRESSION_MAX: usize = 256;

pub(super) fn encode(array: &dyn Array, out: &mut Vec<u8>) {
    let (lengths, bytes) = match array.data_type() {
        ArrowType::Utf8View => flatten(array.as_string_view()),
        _ => flatten(array.as_binary_view()),
    };
    integers::encode(&lengths, out);
    put_varint(out, bytes.len() as u64);
    let Some(compressed) = compressed(&bytes) else {
        put_varint(out, 0);
        out.extend_from_slice(&bytes);
        return;
    };
    put_varint(out, compressed.len() as u64);
    out.extend_from_slice(&compressed);
}

/// Compresses the bytes if that saves more time than it takes. While LZ4 reads a byte, a usual disk
/// writes more than half of one, so a trial must save three fifths of its bytes.
fn compressed(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < COMPRESSED_BYTES_MIN {
        return None;
    }
    if bytes.len() < GLANCE_BELOW_BYTES {
        // The glance is less strict than the trial: if its bytes shrink by a fifth, more bytes may
        // repeat more.
        let glance = &bytes[..GLANCE_BYTES];
        if lz4_flex::block::compress(glance).len() > GLANCE_BYTES / 5 * 4 {
            return None;
        }
    }
    let trial = &bytes[..bytes.len().min(TRIAL_BYTES)];
    let tried = lz4_flex::block::compress(trial);
    if tried.len() >= trial.len() / 5 * 2 {
        return None;
    }
    Some(if trial.len() == bytes.len() { tried } else { lz4_flex::block::compress(bytes) })
}

fn flatten<T: ByteViewType + ?Sized>(array: &GenericByteViewArray<T>) -> (Vec<i64>, Vec<u8>) {
    let lengths: Vec<i64> = array
        .views()
        .iter()
        .enumerate()
        .map(|(row, view)| if array.is_null(row) { 0 } else { i64::from(*view as u32) })
        .collect();
    let mut bytes = Vec::with_capacity(lengths.iter().sum::<i64>() as usize);
    for row in 0..array.len() {
        if array.is_valid(row) {
            bytes.extend_from_slice(array.value(row).as_ref());
        }
    }
    (lengths, bytes)
}

pub(super) fn decode(
    data_type: &ArrowType,
    rows: usize,
    nulls: Option<NullBuffer>,
    input: &mut Input<'_>,
) -> Result<ArrayRef> {
    let lengths = integers::decode(rows, input, |length| length)?;
    let offsets = offsets(&lengths)?;
    let bytes = get_bytes(input)?;
    if offsets.last().copied() != i32::try_from(bytes.len()).ok() {
        return Err(damaged("texts have other lengths than their bytes"));
    }
    let inline: i64 = lengths.iter().filter(|length| **length <= 12).sum();
    let wasteful = inline as usize > bytes.len() / 8;
    let values = Buffer::from_vec(bytes);
    let array: ArrayRef = if data_type == &ArrowType::Utf8View {
        let texts = StringArray::try_new(offsets, values, nulls)
            .map_err(|error| damaged("a text is not UTF-8").with_source(error))?;
        let views = StringViewArray::from(&texts);
        Arc::new(if wasteful { views.gc() } else { views })
    } else {
        let binaries = BinaryArray::try_new(offsets, values, nulls)
            .map_err(|error| damaged("a value of bytes").with_source(error))?;
        let views = BinaryViewArray::from(&binaries);
        Arc::new(if wasteful { views.gc() } else { views })
    };
    Ok(array)
}

fn offsets(lengths: &[i64]) -> Result<OffsetBuffer<i32>> {
    let mut offsets = Vec::with_capacity(lengths.len() + 1);
    let mut end = 0_i32;
    offsets.push(end);
    for &length in lengths {
        let length = i32::try_from(length).ok().filter(|length| *length >= 0);
        let sum = length.and_then(|length| end.checked_add(length));
        end = sum.ok_or_else(|| damaged("a text is too long"))?;
        offsets.push(end);
    }
    Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
}

fn get_bytes(input: &mut Input<'_>) -> Result<Vec<u8>> {
    let length = input.length()?;
    let compressed = input.length()?;
    if compressed == 0 {
        return Ok(input.bytes(length)?.to_vec());
    }
    if length / COMPRESSION_MAX > compressed {
        return Err(damaged("compressed texts are too long"));
    }
    let mut bytes = vec![0; length];
    let written = lz4_flex::block::decompress_into(input.bytes(compressed)?, &mut bytes)
        .map_err(|error| damaged("compressed texts").with_source(error))?;
    if written != length {
        return Err(damaged("compressed texts have another length"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shrinks_is_compressed_and_what_does_not_is_not() {
        let like = |count: usize| -> Vec<u8> {
            (0..count)
                .flat_map(|n| format!("{{\"kind\": \"row\", \"n\": {n}}}").into_bytes())
                .collect()
        };
        let unlike = |count: u64| -> Vec<u8> {
            (0..count)
                .flat_map(|n| (n * n).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes())
                .collect()
        };
        assert_eq!(compressed(&like(10)), None, "it is short");
        for count in [100, 2_000, 20_000] {
            let bytes = like(count);
            let compressed = compressed(&bytes).unwrap();
            assert!(compressed.len() < bytes.len() / 2);
            let back = lz4_flex::block::decompress(&compressed, bytes.len()).unwrap();
            assert_eq!(back, bytes);
            assert_eq!(super::compressed(&unlike(count as u64 * 5)), None);
        }
    }
}
