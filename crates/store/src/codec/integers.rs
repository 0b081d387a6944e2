//! Encodes integers as differences from the minimum, in as few bytes as the largest one needs.

use thalweg_types::Result;

use super::damaged;
use super::input::Input;

/// Appends integers: the minimum (8 bytes), the width of a difference in bytes, the differences.
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

/// Number of integers that are unpacked at a time.
const BLOCK: usize = 8;

/// Reads `count` integers and converts each to a value.
pub(super) fn decode<T: Copy>(
    count: usize,
    input: &mut Input<'_>,
    value: impl Fn(i64) -> T,
) -> Result<Vec<T>> {
    let least = i64::from_le_bytes(input.array()?);
    let width = usize::from(input.byte()?);
    let length = count.checked_mul(width).ok_or_else(|| damaged("a column is too long"))?;
    let bytes = input.bytes(length)?;
    let value = |difference: u64| value(least.wrapping_add(difference as i64));
    Ok(match width {
        0 => vec![value(0); count],
        1 => unpack::<1, T>(bytes, value),
        2 => unpack::<2, T>(bytes, value),
        3 => unpack::<3, T>(bytes, value),
        4 => unpack::<4, T>(bytes, value),
        5 => unpack::<5, T>(bytes, value),
        6 => unpack::<6, T>(bytes, value),
        7 => unpack::<7, T>(bytes, value),
        8 => unpack::<8, T>(bytes, value),
        _ => return Err(damaged("an integer is wider than 8 bytes")),
    })
}

fn unpack<const WIDTH: usize, T: Copy>(bytes: &[u8], value: impl Fn(u64) -> T) -> Vec<T> {
    let blocks = bytes.chunks_exact(BLOCK * WIDTH);
    let rest = blocks.remainder();
    let mut unpacked: Vec<[T; BLOCK]> = Vec::with_capacity(bytes.len().div_ceil(BLOCK * WIDTH));
    unpacked.extend(
        blocks.map(|block| std::array::from_fn(|place| value(word_at::<WIDTH>(block, place)))),
    );
    let mut values = unpacked.into_flattened();
    let (rest, _) = rest.as_chunks::<WIDTH>();
    values.extend(rest.iter().map(|packed| {
        let mut word = [0; 8];
        word[..WIDTH].copy_from_slice(packed);
        value(u64::from_le_bytes(word))
    }));
    values
}

/// The number at a position of a block: one load of eight bytes, shifted and masked. The load
/// begins earlier where it would reach beyond the block.
#[inline(always)]
fn word_at<const WIDTH: usize>(block: &[u8], place: usize) -> u64 {
    let begin = place * WIDTH;
    let load = begin.min(BLOCK * WIDTH - 8);
    let word = u64::from_le_bytes(block[load..load + 8].try_into().expect("eight bytes"));
    (word >> (8 * (begin - load))) & (u64::MAX >> (64 - 8 * WIDTH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_and_every_rest_comes_back() {
        for width in 0..=8_u32 {
            let greatest = 1_u64.checked_shl(8 * width).map_or(u64::MAX, |above| above - 1);
            for (count, least) in (0..3 * BLOCK).zip([0, -1, 77, i64::MIN].into_iter().cycle()) {
                // The greatest difference stands at each end, so that no byte of it is overlooked.
                let difference = |place: usize| match place {
                    0 => 0,
                    1 => greatest,
                    _ if place + 1 == count => greatest,
                    _ => (place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) & greatest,
                };
                let values: Vec<i64> =
                    (0..count).map(|place| least.wrapping_add(difference(place) as i64)).collect();
                let mut bytes = Vec::new();
                encode(&values, &mut bytes);
                bytes.push(0xaa);
                let mut input = Input::new(&bytes);
                assert_eq!(decode(count, &mut input, |value| value).unwrap(), values);
                assert_eq!(input.byte().unwrap(), 0xaa, "all is read and nothing else");
            }
        }
    }
}
