//! Integers as differences from the least, in as few bytes as the greatest difference takes.

use thalweg_types::Result;

use super::damaged;
use super::input::Input;

/// Appends integers: the least (8 bytes), the bytes a difference takes, the differences.
pub(super) fn encode(values: &[i64], out: &mut Vec<u8>) {
    let least = values.iter().copied().min().unwrap_or(0);
    let greatest = values.iter().copied().max().unwrap_or(0);
    let range = greatest.wrapping_sub(least) as u64;
    let width = (64 - range.leading_zeros()).div_ceil(8) as usize;
    out.extend_from_slice(&least.to_le_bytes());
    out.push(width as u8);
    match width {
        0 => {}
        1 => pack::<1>(values, least, out),
        2 => pack::<2>(values, least, out),
        3 => pack::<3>(values, least, out),
        4 => pack::<4>(values, least, out),
        5 => pack::<5>(values, least, out),
        6 => pack::<6>(values, least, out),
        7 => pack::<7>(values, least, out),
        _ => pack::<8>(values, least, out),
    }
}

fn pack<const WIDTH: usize>(values: &[i64], least: i64, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + values.len() * WIDTH, 0);
    let (packed, _) = out[start..].as_chunks_mut::<WIDTH>();
    for (packed, value) in packed.iter_mut().zip(values) {
        let difference = value.wrapping_sub(least) as u64;
        packed.copy_from_slice(&difference.to_le_bytes()[..WIDTH]);
    }
}

/// Reads `count` integers and turns each into a value.
pub(super) fn decode<T: Clone>(
    count: usize,
    input: &mut Input<'_>,
    value: impl Fn(i64) -> T,
) -> Result<Vec<T>> {
    let least = i64::from_le_bytes(input.array()?);
    let width = usize::from(input.byte()?);
    let length = count.checked_mul(width).ok_or_else(|| damaged("a column is too long"))?;
    let bytes = input.bytes(length)?;
    Ok(match width {
        0 => vec![value(least); count],
        1 => unpack::<1, T>(bytes, least, value),
        2 => unpack::<2, T>(bytes, least, value),
        3 => unpack::<3, T>(bytes, least, value),
        4 => unpack::<4, T>(bytes, least, value),
        5 => unpack::<5, T>(bytes, least, value),
        6 => unpack::<6, T>(bytes, least, value),
        7 => unpack::<7, T>(bytes, least, value),
        8 => unpack::<8, T>(bytes, least, value),
        _ => return Err(damaged("an integer is wider than 8 bytes")),
    })
}

fn unpack<const WIDTH: usize, T>(bytes: &[u8], least: i64, value: impl Fn(i64) -> T) -> Vec<T> {
    let (packed, _) = bytes.as_chunks::<WIDTH>();
    packed
        .iter()
        .map(|packed| {
            let mut difference = [0; 8];
            difference[..WIDTH].copy_from_slice(packed);
            value(least.wrapping_add(u64::from_le_bytes(difference) as i64))
        })
        .collect()
}
