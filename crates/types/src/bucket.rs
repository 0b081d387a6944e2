//! Buckets: the fixed units in which rows are spread over partitions and workers.

/// Number of buckets. Fixed for ever: it is part of the format on disk.
pub const BUCKETS: u16 = 16_384;

/// One of the [`BUCKETS`] shares of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(pub u16);

/// The bucket of a shard key's value, given as the value's canonical bytes.
///
/// The hash is FNV-1a over the bytes with a final mix (the finalizer of MurmurHash3, Austin
/// Appleby, public domain). It is version 1 of the bucket hash and must never change: data
/// directories and shard maps depend on it.
#[must_use]
pub fn bucket_of(key: &[u8]) -> Bucket {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for &byte in key {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^= hash >> 33;
    Bucket((hash % u64::from(BUCKETS)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_never_changes() {
        assert_eq!(bucket_of(b""), Bucket(10_534));
        assert_eq!(bucket_of(&8_i64.to_le_bytes()), Bucket(10_912));
        assert_eq!(bucket_of(b"customer-1"), Bucket(3_546));
    }

    #[test]
    fn consecutive_keys_spread_evenly() {
        let mut counts = vec![0_u32; usize::from(BUCKETS)];
        for key in 0..1_638_400_i64 {
            counts[usize::from(bucket_of(&key.to_le_bytes()).0)] += 1;
        }
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(*least > 50 && *most < 160, "100 a bucket on average: {least} to {most}");
    }
}
