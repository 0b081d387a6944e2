//! Wires between nodes that a test delays, silences and tears.

use std::net::SocketAddr;
use std::sync::Arc;
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
        let torn = conditions.wait_for(|now| *now == Condition::Torn);
        let count = tokio::select! {
            count = from.read(&mut piece) => count.unwrap_or(0),
            _ = torn => return,
        };
        if count == 0 {
            return;
        }
        if let Condition::Slow(time) = *conditions.borrow() {
            wait(time).await;
        }
        let passes = conditions.wait_for(|now| *now != Condition::Silent).await;
        let sent = match passes.map(|now| *now) {
            // Half of it is on its way already.
            Ok(Condition::Torn) | Err(_) => {
                // The other side may be gone.
                let _ = to.write_all(&piece[..count / 2]).await;
                return;
            }
            Ok(_) => to.write_all(&piece[..count]).await,
        };
        if sent.is_err() {
            return;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "real sockets work in real time")]
pub async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}
