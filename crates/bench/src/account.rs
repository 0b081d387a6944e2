//! The row that workloads write and look up, in our server and in every peer.

/// Length of owners' texts, unless messages need a certain length.
pub const OWNER_BYTES: usize = 8;
const OWNER_BYTES_MAX: usize = 16;

/// Creates the table of accounts.
pub const CREATE: &str =
    "CREATE TABLE account (id integer PRIMARY KEY, amount integer NOT NULL, owner text NOT NULL)";
/// Inserts an account or replaces the one with its key.
pub const UPSERT: &str = "INSERT INTO account VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET \
    amount = excluded.amount, owner = excluded.owner";
/// Looks up an account by key.
pub const SELECT: &str = "SELECT id, amount, owner FROM account WHERE id = $1";

/// A row of the load.
pub struct Account {
    pub key: u32,
    pub amount: u32,
    owner: [u8; OWNER_BYTES_MAX],
    owner_bytes: usize,
}

impl Account {
    /// The row of operation `number`. `keys` is the number of keys, a power of ten.
    pub fn numbered(number: u64, keys: u64, owner_bytes: usize) -> Account {
        let mut owner = [b'0'; OWNER_BYTES_MAX];
        let mut digits = number;
        for digit in owner[..owner_bytes].iter_mut().rev() {
            *digit = b'0' + (digits % 10) as u8;
            digits /= 10;
        }
        Account { key: key(number, keys), amount: number as u32, owner, owner_bytes }
    }

    /// The owner's name.
    pub fn owner(&self) -> &[u8] {
        &self.owner[..self.owner_bytes]
    }
}

/// Keys come in a scattered order, each once in as many operations as there are keys: the factor is
/// coprime to every power of ten.
pub fn key(number: u64, keys: u64) -> u32 {
    (number * 7_919 % keys) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_met_once() {
        let keys: std::collections::BTreeSet<u32> = (0..1_000).map(|n| key(n, 1_000)).collect();
        assert_eq!(keys.len(), 1_000);
        let row = Account::numbered(1_042, 1_000, OWNER_BYTES);
        assert_eq!((row.key, row.owner()), (key(42, 1_000), &b"00001042"[..]));
    }
}
