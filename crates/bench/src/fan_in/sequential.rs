//! Sync mode: workers are opened one after the other, then read one after the other.

use super::gather::{Share, read};
use super::{Reader, Stop};

pub(super) async fn run<R: Reader>(share: Share<R>) -> Result<(), Stop> {
    let mut opened = Vec::with_capacity(share.asked.len());
    for asked in share.asked {
        opened.push(asked.open(&share.watch).await?);
    }
    for opened in opened {
        read(opened, &share.reader, &share.watch).await?;
    }
    Ok(())
}
