//! A way to a server that a test deafens and cuts.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// What becomes of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Whole,
    /// What the server says does not arrive. What it is told does.
    Deaf,
    /// Connections are torn, and new ones are refused.
    Torn,
}

pub struct Wire {
    pub url: String,
    condition: watch::Sender<Condition>,
    refused: watch::Receiver<u32>,
    _accepting: AbortOnDropHandle<()>,
}

impl Wire {
    pub async fn to(server: SocketAddr) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (condition, conditions) = watch::channel(Condition::Whole);
        let (refusing, refused) = watch::channel(0);
        let accepting = tokio::spawn(accept(listener, server, conditions, refusing));
        Wire { url, condition, refused, _accepting: AbortOnDropHandle::new(accepting) }
    }

    pub fn set(&self, condition: Condition) {
        self.condition.send_replace(condition);
    }

    /// Tears all connections. The next one is as good as new.
    pub fn cut(&self) {
        self.set(Condition::Torn);
        self.set(Condition::Whole);
    }

    /// Tears all connections, and waits until a client has noticed and was refused another.
    pub async fn tear(&mut self) {
        let before = *self.refused.borrow_and_update();
        self.set(Condition::Torn);
        self.refused.wait_for(|refused| *refused > before).await.unwrap();
    }
}

async fn accept(
    listener: TcpListener,
    server: SocketAddr,
    conditions: watch::Receiver<Condition>,
    refusing: watch::Sender<u32>,
) {
    while let Ok((near, _)) = listener.accept().await {
        if *conditions.borrow() == Condition::Torn {
            drop(near);
            refusing.send_modify(|refused| *refused += 1);
            continue;
        }
        let mut changes = conditions.clone();
        changes.mark_unchanged();
        tokio::spawn(async move {
            let Ok(far) = TcpStream::connect(server).await else { return };
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            // Both ways end with the first, and when the wire is cut: before what was kept back
            // could arrive.
            tokio::select! {
                biased;
                () = torn(changes.clone()) => {}
                () = carry(near_in, far_out, None) => {}
                () = carry(far_in, near_out, Some(changes)) => {}
            }
        });
    }
}

/// Resolves when connections that are open now are torn. Whoever looks late sees the wire whole
/// again: any change but to being deaf tears.
async fn torn(mut changes: watch::Receiver<Condition>) {
    while changes.changed().await.is_ok() {
        if *changes.borrow_and_update() != Condition::Deaf {
            return;
        }
    }
}

/// Carries bytes; those that nobody is to hear stay where they are.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut conditions: Option<watch::Receiver<Condition>>,
) {
    let mut piece = vec![0; 16 << 10];
    loop {
        let count = from.read(&mut piece).await.unwrap_or(0);
        if let Some(conditions) = &mut conditions
            && conditions.wait_for(|now| *now != Condition::Deaf).await.is_err()
        {
            return;
        }
        if count == 0 || to.write_all(&piece[..count]).await.is_err() {
            return;
        }
    }
}
