//! What of a change of a volume is for one node: each acts on its own components, the last one ends the change.
//!
//! ```text
//!  create   each makes its components                                   ─► all are made:   the volume is ready
//!  resize   the owner frees what lies behind, sizes its components; then the others size theirs ─► all have it: the size is the new one
//!  format   the owner                                                   ─► done
//!  copies   each makes those of its components that are added, deletes those that leave ─► there is none of these
//!  delete   each deletes its components                                 ─► none is left:   the records go
//! ```
//!
//! Owns: [`share_of`], [`is_sized`].
//! Invariants: until a change has ended some node has a share of it; a node never has one that another has to come before; one node with all
//! components has the whole of it.
//! Never: looks at whether a node is up.

use crate::paths::owner_of;
use crate::place::{component_bytes, reserve_chunks};
use crate::reconcile::Finish;
use crate::record::{ComponentRecord, ObjectRecord, Stage, VolumeRecord};
use base::hooks::{self, SeededFault};

/// What there is to do for a volume by anybody. `object`: its layout, if there is one.
pub fn under_way(volume: &VolumeRecord, object: Option<&ObjectRecord>) -> Option<Finish> {
    match volume.stage {
        Stage::Creating => Some(Finish::Create),
        Stage::Deleting if !hooks::seeded(SeededFault::DeletionForgotten) => Some(Finish::Delete),
        Stage::Ready if volume.resize_to.is_some() && !hooks::seeded(SeededFault::ResizeForgotten) => Some(Finish::Resize),
        Stage::Ready if volume.format_to.is_some() && !hooks::seeded(SeededFault::FormatForgotten) => Some(Finish::Format),
        Stage::Ready if object.is_some_and(|o| o.components().any(|c| !c.is_used())) => Some(Finish::Copies),
        Stage::Deleting | Stage::Ready => None,
    }
}

/// What there is to do for a volume by `node`, now. `object`: its layout, if there is one; `percent`: of its size, what its policy reserves, if
/// that is known.
pub fn share_of(volume: &VolumeRecord, object: Option<&ObjectRecord>, percent: Option<u8>, node: &str) -> Option<Finish> {
    let what = under_way(volume, object)?;
    let Some(object) = object else { return Some(what) };
    let owner = owner_of(object).is_none_or(|owner| owner == node);
    let mine = || object.components().filter(|c| c.node == node);
    let due = match what {
        Finish::Create => mine().any(|c| c.no.is_none()) || owner && object.components().all(|c| c.no.is_some()),
        Finish::Delete => mine().next().is_some() || object.components().next().is_none(),
        Finish::Resize => {
            let sized = |c: &ComponentRecord| c.leaving || is_sized(c, volume, object, percent);
            let owner_is_done = || object.components().filter(|c| Some(c.node.as_str()) == owner_of(object)).all(sized);
            let turn = owner || owner_is_done() || hooks::seeded(SeededFault::SizedBeforeOwner);
            turn && !mine().all(sized) || owner && object.components().all(sized)
        }
        Finish::Format => owner,
        Finish::Copies => mine().any(|c| !c.is_used()),
    };
    due.then_some(what)
}

/// Whether a component has the size that its volume is to have, and sets aside what `percent` of that comes to.
pub fn is_sized(component: &ComponentRecord, volume: &VolumeRecord, object: &ObjectRecord, percent: Option<u8>) -> bool {
    let bytes = component_bytes(volume.resize_to.unwrap_or(volume.bytes), object.mirrors.len());
    component.bytes == bytes && percent.is_none_or(|percent| component.reserve_chunks == reserve_chunks(bytes, percent))
}

#[cfg(test)]
#[path = "share_tests.rs"]
mod tests;
