//! Tests of the front end: one session under bytes ([`session_tests`]), whole targets in a simulated world and on real sockets
//! ([`world_tests`]).

mod alua_tests;
mod cases;
mod client;
mod command_tests;
mod connections_tests;
mod copy_tests;
mod memory;
mod reserve_tests;
mod rig;
mod sequence_tests;
mod session_tests;
mod support_tests;
mod taken_tests;
mod world_tests;

use crate::view::{TargetView, UnitView, View};
use base::{Visibility, VolumeId, WriteProtect};
use cluster::Path;
use frontend::{ServedVolume, VolumeView};
use object::VolumeRef;

const TARGET: &str = "iqn.2026-11.io.basalt:test";
const HOST: &str = "iqn.2026-11.example:host";

fn volume(n: u8, lba_bytes: u32, write_protect: WriteProtect) -> Option<VolumeView> {
    let plain = ServedVolume::plain(VolumeId::from_bytes([n; 16]), format!("v{n}"), 4 << 20);
    Some(VolumeView { volume: ServedVolume { lba_bytes, write_protect, ..plain }, used: vec![], limited: n == 4, owner: None, revision: 0 })
}

/// Unit 0: 512-byte blocks. Unit 1: 4096-byte blocks. Unit 2: read-only. Unit 3: with limits. All of 4 MiB.
fn view() -> View {
    View {
        generation: 1,
        targets: vec![TargetView {
            name: TARGET.into(),
            allow_any_host: false,
            authenticated: false,
            hosts: vec![HOST.into()],
            units: [0, 1, 2, 3].map(|lun| (lun, UnitView { volume: VolumeRef(lun), hosts: Visibility::All, path: Path::ALONE })).into(),
        }],
        volumes: vec![
            volume(1, 512, WriteProtect::None),
            volume(2, 4096, WriteProtect::None),
            volume(3, 512, WriteProtect::Protected),
            volume(4, 512, WriteProtect::None),
        ],
        ..View::default()
    }
}
