//! Cancels of statements that are being parsed.

use std::sync::atomic::Ordering;

use thalweg_execution::cancel::on_own_thread;
use thalweg_types::SqlState;

use crate::Database;

#[tokio::test]
async fn a_cancel_is_heard_while_a_text_is_parsed() {
    let session = Database::in_memory().unwrap().session();
    let handle = session.cancel_handle();
    let sql = format!("SELECT 1 IN ({}1)", "1,".repeat(20_000));
    handle.cancel();
    assert!(session.parse(&sql).is_ok(), "it came before");
    let (begun, begins) = tokio::sync::oneshot::channel();
    let mut canceling = Box::pin(on_own_thread(move |is_unwanted| {
        let _ = begun.send(());
        while !is_unwanted.load(Ordering::Relaxed) {
            handle.cancel();
        }
    }));
    assert!(futures::future::poll_immediate(canceling.as_mut()).await.is_none());
    begins.await.unwrap();
    let error = (0..1_000).find_map(|_| session.parse(&sql).err()).unwrap();
    assert_eq!(error.state(), SqlState::QUERY_CANCELED);
}
