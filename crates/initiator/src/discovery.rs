//! The discovery service: which subsystems are where.

use crate::controller::{Controller, ControllerOptions};
use crate::error::{Error, Unsupported};
use format::nvme::fabrics::DISCOVERY_NQN;
use format::nvme::log::{DiscoveryEntry, DiscoveryHeader, LID_DISCOVERY, SUBTYPE_NVM, TREQ_SECURE_MASK, TREQ_SECURE_REQUIRED};
use std::net::SocketAddr;
use std::time::Duration;

/// Records of a log at most: those of the largest clusters, with a thousand ports times subsystems for each of 64 nodes. More are an error, so that
/// a log is never taken for a shorter one.
pub const RECORDS_MAX: u64 = 64 << 10;
/// How often a log that changes while it is read is read again.
const READS_MAX: u32 = 5;

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// NQN of the subsystem.
    pub nqn: String,
    /// Whether it is an NVM subsystem (else a discovery service).
    pub is_nvm: bool,
    /// Subtype: 1 another discovery service, 2 an NVM subsystem, 3 the discovery service that was asked.
    pub subtype: u8,
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
    /// Whether it wants TLS.
    pub tls_required: bool,
    /// Entry flags: bit 0 every entry of this service says the same, bit 1 persistent connections are taken.
    pub eflags: u16,
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
        if header.numrec > RECORDS_MAX {
            return Err(Error::Unsupported(Unsupported::DiscoveryRecords(header.numrec)));
        }
        let bytes = controller.log(LID_DISCOVERY, 0, DiscoveryHeader::LEN as u64, header.numrec as usize * DiscoveryEntry::LEN)?;
        let records = bytes.chunks(DiscoveryEntry::LEN).map(record).collect::<Result<Vec<_>, _>>()?;
        if read_header(&controller)?.genctr == header.genctr {
            // Best effort: the log is what was asked for.
            let _ = controller.shutdown();
            return Ok(records);
        }
    }
    Err(Error::Unsupported(Unsupported::DiscoveryChanges))
}

fn record(bytes: &[u8]) -> Result<Record, Error> {
    let entry = DiscoveryEntry::parse(bytes).ok_or(Error::Unsupported(Unsupported::DiscoveryRecord))?;
    Ok(Record {
        nqn: entry.nqn().unwrap_or_default().to_owned(),
        is_nvm: entry.subtype == SUBTYPE_NVM,
        subtype: entry.subtype,
        trtype: entry.trtype,
        address: entry.address(),
        service: entry.service(),
        portid: entry.portid,
        cntlid: entry.cntlid,
        tls_required: entry.treq & TREQ_SECURE_MASK == TREQ_SECURE_REQUIRED,
        eflags: entry.eflags,
    })
}

fn read_header(controller: &Controller) -> Result<DiscoveryHeader, Error> {
    let bytes = controller.log(LID_DISCOVERY, 0, 0, DiscoveryHeader::LEN)?;
    DiscoveryHeader::parse(&bytes).ok_or(Error::Unsupported(Unsupported::DiscoveryLog))
}
