//! All that is decided on, of a copy of the directory.
//!
//! Owns: [`records`]. Invariant: the records are those of one moment. Never: asks a directory.

use crate::record::{ObjectRecord, ReservationRecord, VolumeRecord};
use crate::{DirectoryError, Record, Versioned, View};
use base::hooks::{self, SeededFault};
use cluster::Records;

/// What the directory held at the revision of `view`.
pub fn records(view: &View) -> Result<Records, DirectoryError> {
    let (volumes, reservations) = (view.all::<VolumeRecord>()?, view.all::<ReservationRecord>()?);
    let objects = view.all::<ObjectRecord>()?;
    let mut records = Records { nodes: all(view)?, groups: all(view)?, policies: all(view)?, ..Records::default() };
    records.object_revisions = objects.iter().map(|o| (o.id, o.revision.0)).collect();
    records.objects = objects.into_iter().map(|r| r.value).collect();
    volumes.iter().for_each(|v| records.note_view(v.id, v.revision.0));
    let counted = reservations.iter().filter(|_| !hooks::seeded(SeededFault::ReservationNotInRevision));
    counted.for_each(|r| records.note_view(r.volume, r.revision.0));
    records.volumes = volumes.into_iter().map(|r| r.value).collect();
    records.reservations = reservations.into_iter().map(|r| r.value).collect();
    Ok(records)
}

fn all<R: Record>(view: &View) -> Result<Vec<R>, DirectoryError> {
    Ok(view.all()?.into_iter().map(|r: Versioned<R>| r.value).collect())
}
