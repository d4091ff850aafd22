//! Tests of the front end: one session under bytes ([`session_tests`]), controllers ([`controller_tests`]), whole targets in a simulated
//! world ([`world_tests`]).

mod admin_tests;
mod auth_tests;
mod cas_tests;
mod client;
mod controller_tests;
mod deadline_tests;
mod discovery_tests;
mod edge_tests;
mod fabrics_tests;
mod fence_tests;
mod flood_tests;
mod fuzz_tests;
mod io_tests;
mod memory;
mod news_tests;
mod nodes_tests;
mod reset_tests;
mod session_tests;
mod support_statuses;
mod support_table;
mod support_tests;
mod tls_tests;
mod turn_tests;
mod world_tests;

use crate::view::{Ana, NamespaceView, SubsystemView, View};
use base::{Security, Visibility, VolumeId, WriteProtect};
use frontend::{ServedVolume, VolumeView};
use object::VolumeRef;
use std::collections::BTreeMap;

/// A subsystem of the tests.
const NQN: &str = "nqn.2026-11.io.basalt:test";
/// A host that may connect.
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001";

fn volume(n: u8, bytes: u64, lba_bytes: u32) -> Option<VolumeView> {
    Some(VolumeView {
        volume: ServedVolume {
            id: VolumeId::from_bytes([n; 16]),
            name: format!("v{n}"),
            bytes,
            lba_bytes,
            write_protect: WriteProtect::None,
            formatting: false,
            reservation: None,
            thin: false,
        },
        used: vec![],
        limited: false,
        owner: None,
        revision: 0,
    })
}

/// Namespace 1: 512-byte blocks, 4 MiB. Namespace 2: 4096-byte blocks, 4 MiB. Namespace 3: read-only.
fn view() -> View {
    let mut read_only = volume(3, 1 << 20, 512);
    if let Some(v) = &mut read_only {
        v.write_protect = WriteProtect::Protected;
    }
    View {
        generation: 1,
        subsystems: vec![SubsystemView {
            nqn: NQN.into(),
            serial: "S1".into(),
            model: "Basalt".into(),
            allow_any_host: false,
            hosts: vec![HOST.into()],
            namespaces: [1, 2, 3]
                .map(|nsid| (nsid, NamespaceView { volume: VolumeRef(nsid - 1), hosts: Visibility::All, ana: Ana::default() }))
                .into(),
            security: Security::Plain,
            manage_namespaces: false,
        }],
        volumes: vec![volume(1, 4 << 20, 512), volume(2, 4 << 20, 4096), read_only],
        hosts: BTreeMap::new(),
        ..View::default()
    }
}
