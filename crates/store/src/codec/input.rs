//! A reader of untrusted bytes.

use thalweg_types::Result;

use super::damaged;

/// The bytes that are still unread. All methods fail if too few are left.
pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    /// Number of unread bytes.
    pub fn remaining(&self) -> usize {
        self.0.len()
    }

    /// Reads one byte.
    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.bytes(1)?[0])
    }

    /// Reads `length` bytes without copying them.
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let Some((bytes, rest)) = self.0.split_at_checked(length) else {
            return Err(damaged("a value ends too early"));
        };
        self.0 = rest;
        Ok(bytes)
    }

    /// Reads an array of `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((bytes, rest)) = self.0.split_first_chunk() else {
            return Err(damaged("a value ends too early"));
        };
        self.0 = rest;
        Ok(*bytes)
    }

    /// Reads an unsigned LEB128 number; fails if it exceeds 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64> {
        let wide = self.wide_varint()?;
        u64::try_from(wide).map_err(|_| damaged("a number is too large"))
    }

    /// Reads an unsigned LEB128 number of up to 128 bits (19 bytes).
    pub fn wide_varint(&mut self) -> Result<u128> {
        let mut value = 0_u128;
        for (index, &byte) in self.0.iter().enumerate().take(19) {
            value |= u128::from(byte & 0x7F) << (7 * index);
            if byte < 0x80 {
                self.0 = &self.0[index + 1..];
                return Ok(value);
            }
        }
        Err(damaged("a number does not end"))
    }

    /// Reads a number of things that lie in memory.
    pub fn length(&mut self) -> Result<usize> {
        usize::try_from(self.varint()?).map_err(|_| damaged("a length is too large"))
    }

    /// Reads one bit for each of `rows` rows.
    pub fn bits(&mut self, rows: usize) -> Result<&'a [u8]> {
        self.bytes(rows.div_ceil(8))
    }

    /// Fails if unread bytes are left.
    pub fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(damaged("something follows the last value")) }
    }
}

#[inline]
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn put_wide_varint(out: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps small numbers of either sign to small unsigned numbers.
#[inline]
pub(super) fn zigzag(value: i128) -> u128 {
    ((value << 1) ^ (value >> 127)) as u128
}

#[inline]
pub(super) fn unzigzag(value: u128) -> i128 {
    ((value >> 1) as i128) ^ -((value & 1) as i128)
}
