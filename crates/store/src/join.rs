//! Waiting for several futures at once, for the background tasks.
//!
//! Owns: nothing but its futures. Never: spawns; it runs within the task that awaits it.

use core::future::Future;
use core::pin::Pin;
use core::task::Poll;

/// Runs `futures` (a bounded list, by the caller) together; gives their results in the order of the futures.
pub(crate) async fn join_all<F: Future + Unpin>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut slots: Vec<Slot<F>> = futures.into_iter().map(Slot::Waits).collect();
    core::future::poll_fn(|cx| {
        let mut ready = true;
        for slot in &mut slots {
            if let Slot::Waits(future) = slot {
                match Pin::new(future).poll(cx) {
                    Poll::Ready(output) => *slot = Slot::Ended(output),
                    Poll::Pending => ready = false,
                }
            }
        }
        if ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let outputs = slots.into_iter().map(|slot| match slot {
        Slot::Ended(output) => output,
        Slot::Waits(_) => unreachable!("all have ended"),
    });
    outputs.collect()
}

enum Slot<F: Future> {
    Waits(F),
    Ended(F::Output),
}
