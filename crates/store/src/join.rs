//! Waiting for several futures at once, for the background tasks.
//!
//! Owns: nothing but its futures. Never: spawns; it runs within the task that awaits it.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// Runs `futures` (a bounded list, by the caller) together; gives their results in the order of the futures.
pub(crate) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let slots = futures.into_iter().map(|f| Slot { future: Some(Box::pin(f)), output: None }).collect();
    Join { slots }.await
}

struct Slot<F: Future> {
    future: Option<Pin<Box<F>>>,
    output: Option<F::Output>,
}

struct Join<F: Future> {
    slots: Vec<Slot<F>>,
}

// The futures are boxed, so nothing in here is pinned in place.
impl<F: Future> Unpin for Join<F> {}

impl<F: Future> Future for Join<F> {
    type Output = Vec<F::Output>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut ready = true;
        for slot in &mut self.slots {
            if let Some(future) = &mut slot.future {
                match future.as_mut().poll(cx) {
                    Poll::Ready(output) => {
                        slot.output = Some(output);
                        slot.future = None;
                    }
                    Poll::Pending => ready = false,
                }
            }
        }
        if !ready {
            return Poll::Pending;
        }
        Poll::Ready(self.slots.drain(..).filter_map(|slot| slot.output).collect())
    }
}
