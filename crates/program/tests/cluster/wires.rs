//! Wires between nodes that a test delays, silences and tears.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::support::anywhere;

/// What becomes of bytes on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Whole,
    /// Each piece waits for so long.
    Slow(Duration),
    /// Nothing arrives any more, and nobody is told.
    Silent,
    /// Connections are torn, wherever in a message they are, and no new ones are made.
    Torn,
}

/// A way to a node that may change its address behind it.
pub struct Wire {
    /// Where others find the node.
    pub address: SocketAddr,
    condition: watch::Sender<Condition>,
    target: watch::Sender<Option<SocketAddr>>,
    _accepting: AbortOnDropHandle<()>,
}

impl Wire {
    pub async fn new() -> Wire {
        let listener = TcpListener::bind(anywhere()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (condition, conditions) = watch::channel(Condition::Whole);
        let (target, targets) = watch::channel(None);
        let accepting = AbortOnDropHandle::new(tokio::spawn(accept(listener, targets, conditions)));
        Wire { address, condition, target, _accepting: accepting }
    }

    pub fn set(&self, condition: Condition) {
        self.condition.send_replace(condition);
    }

    /// Where it leads from now on; `None` while the node is down.
    pub fn lead_to(&self, target: Option<SocketAddr>) {
        self.target.send_replace(target);
    }
}

/// The wires of a worker that is a process: one on which gateways and other workers call it, and
/// one on which it calls its gateway.
pub struct Ways {
    pub inward: Wire,
    pub out: Wire,
}

impl Ways {
    pub async fn new() -> Ways {
        Ways { inward: Wire::new().await, out: Wire::new().await }
    }
}

async fn accept(
    listener: TcpListener,
    targets: watch::Receiver<Option<SocketAddr>>,
    conditions: watch::Receiver<Condition>,
) {
    while let Ok((near, _)) = listener.accept().await {
        let target = *targets.borrow();
        let (conditions, torn) = (conditions.clone(), *conditions.borrow() == Condition::Torn);
        let Some(target) = target.filter(|_| !torn) else { continue };
        tokio::spawn(async move {
            let Ok(far) = TcpStream::connect(target).await else { return };
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            // Both ways end with the first.
            tokio::select! {
                () = carry(near_in, far_out, conditions.clone()) => {}
                () = carry(far_in, near_out, conditions) => {}
            }
        });
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut conditions: watch::Receiver<Condition>,
) {
    let mut piece = vec![0; 16 << 10];
    loop {
        let count = tokio::select! {
            count = from.read(&mut piece) => count.unwrap_or(0),
            _ = until(&mut conditions, |now| now == Condition::Torn) => return,
        };
        if count == 0 {
            return;
        }
        let now = *conditions.borrow();
        if let Condition::Slow(time) = now {
            wait(time).await;
        }
        let arrives = until(&mut conditions, |now| now != Condition::Silent).await;
        let is_torn = arrives.is_none_or(|now| now == Condition::Torn);
        // Half of what is torn is on its way already.
        let arriving = if is_torn { count / 2 } else { count };
        if to.write_all(&piece[..arriving]).await.is_err() || is_torn {
            return;
        }
    }
}

/// The condition once it is one of these; `None` where the wire is gone.
async fn until(
    conditions: &mut watch::Receiver<Condition>,
    wanted: impl Fn(Condition) -> bool,
) -> Option<Condition> {
    conditions.wait_for(|now| wanted(*now)).await.ok().map(|now| *now)
}

#[expect(clippy::disallowed_methods, reason = "real sockets work in real time")]
pub async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}
