//! The discovery service: which subsystems are where.

use crate::controller::{Controller, ControllerOptions};
use crate::error::{Error, Unsupported};
use format::nvme::fabrics::DISCOVERY_NQN;
use format::nvme::log::{DiscoveryEntry, DiscoveryHeader, LID_DISCOVERY, SUBTYPE_NVM};
use std::net::SocketAddr;
use std::time::Duration;

/// Records taken at most.
pub const RECORDS_MAX: u64 = 4096;
/// How often a log that changes while it is read is read again.
const READS_MAX: u32 = 5;

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// NQN of the subsystem.
    pub nqn: String,
    /// Whether it is an NVM subsystem (else a discovery service).
    pub is_nvm: bool,
    /// Transport type: 3 is TCP.
    pub trtype: u8,
    /// Address.
    pub address: String,
    /// Port.
    pub service: String,
    /// Port identifier.
    pub portid: u16,
    /// Controller identifier to connect to.
    pub cntlid: u16,
}

impl Record {
    /// Where to connect, when address and service are numbers.
    pub fn addr(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.address.parse().ok()?, self.service.parse().ok()?))
    }
}

/// Reads the discovery log; `options.subnqn` is not used.
pub fn discover(options: &ControllerOptions) -> Result<Vec<Record>, Error> {
    let options = ControllerOptions { subnqn: DISCOVERY_NQN.to_owned(), kato: Duration::ZERO, ..options.clone() };
    let controller = Controller::connect_admin(options)?;
    for _ in 0..READS_MAX {
        let header = read_header(&controller)?;
        if header.recfmt != 0 {
            return Err(Error::Unsupported(Unsupported::DiscoveryFormat));
        }
        let mut records = Vec::new();
        for n in 0..header.numrec.min(RECORDS_MAX) {
            let at = (DiscoveryHeader::LEN + n as usize * DiscoveryEntry::LEN) as u64;
            let bytes = controller.log(LID_DISCOVERY, 0, at, DiscoveryEntry::LEN)?;
            let entry = DiscoveryEntry::parse(&bytes).ok_or(Error::Unsupported(Unsupported::DiscoveryRecord))?;
            records.push(Record {
                nqn: entry.nqn().unwrap_or_default().to_owned(),
                is_nvm: entry.subtype == SUBTYPE_NVM,
                trtype: entry.trtype,
                address: entry.address(),
                service: entry.service(),
                portid: entry.portid,
                cntlid: entry.cntlid,
            });
        }
        if read_header(&controller)?.genctr == header.genctr {
            // Best effort: the log is what was asked for.
            let _ = controller.shutdown();
            return Ok(records);
        }
    }
    Err(Error::Unsupported(Unsupported::DiscoveryChanges))
}

fn read_header(controller: &Controller) -> Result<DiscoveryHeader, Error> {
    let bytes = controller.log(LID_DISCOVERY, 0, 0, DiscoveryHeader::LEN)?;
    DiscoveryHeader::parse(&bytes).ok_or(Error::Unsupported(Unsupported::DiscoveryLog))
}
