//! Limits the undecoded bytes of all bodies together.
//!
//! A long row arrives in many pieces and is held until it is complete. Reservations never wait:
//! a request that cannot get more memory decodes the rows that it has, or fails. No client can thus
//! stop others by sending slowly while it holds memory.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of each body that need no reservation: two pieces.
const FREE_BYTES: usize = 128 << 10;

/// The memory of all bodies.
#[derive(Clone)]
pub(crate) struct BodyMemory(Arc<Semaphore>);

impl BodyMemory {
    pub(crate) fn new(bytes: usize) -> BodyMemory {
        BodyMemory(Arc::new(Semaphore::new(bytes.clamp(1, u32::MAX as usize))))
    }

    pub(super) fn share(&self) -> BodyShare {
        BodyShare { memory: self.clone(), reserved: None }
    }
}

/// The memory of one body.
pub(super) struct BodyShare {
    memory: BodyMemory,
    reserved: Option<OwnedSemaphorePermit>,
}

impl BodyShare {
    /// Reserves memory for this many bytes, in place of the reservation before. Returns false, and
    /// changes nothing, if there is not enough.
    pub(super) fn resize(&mut self, bytes: usize) -> bool {
        let wanted = bytes.saturating_sub(FREE_BYTES);
        let reserved = self.reserved.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if wanted <= reserved {
            if let Some(permit) = &mut self.reserved {
                drop(permit.split(reserved - wanted));
            }
            return true;
        }
        let Ok(more) = u32::try_from(wanted - reserved) else { return false };
        let Ok(more) = Arc::clone(&self.memory.0).try_acquire_many_owned(more) else {
            return false;
        };
        match &mut self.reserved {
            Some(permit) => permit.merge(more),
            None => self.reserved = Some(more),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_share_the_memory_beyond_their_first_pieces() {
        let memory = BodyMemory::new(1_000);
        let (mut one, mut other) = (memory.share(), memory.share());
        assert!(one.resize(FREE_BYTES + 700));
        assert!(!other.resize(FREE_BYTES + 301));
        assert!(other.resize(FREE_BYTES + 300));
        assert!(!other.resize(FREE_BYTES + 301));
        assert!(one.resize(FREE_BYTES + 10));
        assert!(other.resize(FREE_BYTES + 990));
        drop(other);
        assert!(one.resize(FREE_BYTES + 1_000));
        assert!(!one.resize(usize::MAX));
        assert!(one.resize(0));
    }
}
