//! The task of a connection: it moves bytes, and detects a peer that is gone without closing it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use h2::{Ping, PingPong};
use thalweg_runtime::interval;

use super::{Connection, Peer};

/// Number of checks during the time that a node may be silent.
const TICKS: u32 = 4;

/// Drives a connection until it ends. If a node hangs or is cut off, the connection stays open as
/// far as the kernel knows. So the node has to answer pings while calls are open.
pub(super) async fn drive(connection: Connection, peer: Arc<Peer>, silence: Duration) {
    until_lost(connection, &peer, silence).await;
    peer.closed.store(true, Ordering::Relaxed);
}

async fn until_lost(mut connection: Connection, peer: &Peer, silence: Duration) {
    let Some(mut pings) = connection.ping_pong() else {
        return;
    };
    let mut ticks = interval(silence / TICKS);
    // Ticks since an unanswered ping; `None` if there is none.
    let mut silent_ticks = None;
    let mut pieces = 0;
    let mut connection = pin!(connection);
    loop {
        // Idle connections, of which there may be thousands, need no timer.
        let is_watched = silent_ticks.is_some() || peer.is_asked();
        tokio::select! {
            // Received bytes are handled before the timer, since this side may be late itself.
            biased;
            // An error is reported to the open calls.
            _ = connection.as_mut() => return,
            pong = pong(&mut pings), if silent_ticks.is_some() => {
                silent_ticks = None;
                if pong.is_err() {
                    return;
                }
            }
            () = peer.asked.notified(), if !is_watched => ticks.reset(),
            _ = ticks.tick(), if is_watched => {
                let pieces_before = std::mem::replace(&mut pieces, peer.pieces());
                silent_ticks = match silent_ticks {
                    Some(_) if pieces > pieces_before => Some(0),
                    Some(ticks) if ticks + 1 < TICKS => Some(ticks + 1),
                    Some(_) => {
                        let why = format!("it was silent for {} ms", silence.as_millis());
                        peer.give_up(why);
                        return;
                    }
                    None if peer.is_asked() => pings.send_ping(Ping::opaque()).ok().map(|()| 0),
                    None => None,
                };
            }
        }
    }
}

async fn pong(pings: &mut PingPong) -> Result<h2::Pong, h2::Error> {
    poll_fn(|context| pings.poll_pong(context)).await
}
