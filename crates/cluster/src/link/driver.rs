//! What moves a connection's bytes, and notices when the other side is gone without a word.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::time::{MissedTickBehavior, interval};

use super::{Connection, Peer};

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
    let mut ticks = interval(silence / 2);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first one comes at once.
    ticks.tick().await;
    let mut waiting = false;
    let mut connection = pin!(connection);
    loop {
        tokio::select! {
            // What is lost here is told to whoever waits for an answer.
            _ = connection.as_mut() => return,
            _ = ticks.tick() => {
                if waiting {
                    let why = format!("it was silent for {} ms", silence.as_millis());
                    *peer.given_up.lock() = Some(why);
                    return;
                }
                let asked = peer.calls.load(Ordering::Relaxed) > 0;
                waiting = asked && pings.send_ping(Ping::opaque()).is_ok();
            }
            pong = pong(&mut pings), if waiting => {
                waiting = false;
                if pong.is_err() {
                    return;
                }
            }
        }
    }
}

async fn pong(pings: &mut PingPong) -> Result<h2::Pong, h2::Error> {
    poll_fn(|context| pings.poll_pong(context)).await
}
