//! What moves a connection's bytes, and notices when the other side is gone without a word.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::time::{MissedTickBehavior, interval};

use super::{Connection, Peer};

/// How often it is looked at within the time that a node may be silent.
const TICKS: u32 = 4;

/// Drives a connection until it ends. A node that hangs, or is cut off, leaves the connection open
/// as far as the kernel knows: while something is asked of it, it has to answer pings.
pub(super) async fn drive(connection: Connection, peer: Arc<Peer>, silence: Duration) {
    until_lost(connection, &peer, silence).await;
    peer.closed.store(true, Ordering::Relaxed);
}

async fn until_lost(mut connection: Connection, peer: &Peer, silence: Duration) {
    let Some(mut pings) = connection.ping_pong() else {
        return;
    };
    let mut ticks = interval(silence / TICKS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Ticks since a ping was sent that nobody has answered.
    let mut silent_ticks = None;
    let mut pieces = 0;
    let mut connection = pin!(connection);
    loop {
        // Of thousands of connections that nobody uses, none wakes its thread now and then.
        let is_watched = silent_ticks.is_some() || peer.is_asked();
        tokio::select! {
            // What has come counts before the time that has passed: this side may be late itself.
            biased;
            // What is lost here is told to whoever waits for an answer.
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
