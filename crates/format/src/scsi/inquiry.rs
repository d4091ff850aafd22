//! Standard INQUIRY data (SPC-4 6.6.2).

use super::wire::{be16, bit, byte, put};
use crate::nvme::text::{padded, trimmed};

/// Bytes of standard INQUIRY data as built here.
pub const INQUIRY_BYTES: usize = 96;
/// Most version descriptors.
pub const VERSIONS_MAX: usize = 8;
/// Version descriptor: SAM-5.
pub const VERSION_SAM_5: u16 = 0x00A0;
/// Version descriptor: SPC-4.
pub const VERSION_SPC_4: u16 = 0x0460;
/// Version descriptor: SBC-3.
pub const VERSION_SBC_3: u16 = 0x04C0;
/// Version descriptor: iSCSI.
pub const VERSION_ISCSI: u16 = 0x0960;
/// VERSION: SPC-4.
pub const SPC_4: u8 = 6;
/// PERIPHERAL DEVICE TYPE: direct access block device.
pub const DEVICE_BLOCK: u8 = 0x00;
/// PERIPHERAL DEVICE TYPE: unknown or none.
pub const DEVICE_NONE: u8 = 0x1F;
/// PERIPHERAL QUALIFIER: a unit is there.
pub const QUALIFIER_CONNECTED: u8 = 0b000;
/// PERIPHERAL QUALIFIER: no unit can be there.
pub const QUALIFIER_NONE: u8 = 0b011;

/// Standard INQUIRY data of a unit that speaks SPC-4, orders commands in queues, and is not removable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inquiry {
    /// PERIPHERAL QUALIFIER, 3 bits.
    pub qualifier: u8,
    /// PERIPHERAL DEVICE TYPE, 5 bits.
    pub device_type: u8,
    /// Implicit changes of asymmetric access state happen (TPGS bit 0).
    pub implicit_alua: bool,
    /// EXTENDED COPY is served (3PC).
    pub third_party_copy: bool,
    /// There is more than one target port (MULTIP).
    pub multi_port: bool,
    /// T10 vendor identification, 8 characters.
    pub vendor: String,
    /// Product identification, 16 characters.
    pub product: String,
    /// Product revision level, 4 characters.
    pub revision: String,
    /// Version descriptors, at most [`VERSIONS_MAX`].
    pub versions: Vec<u16>,
}

impl Inquiry {
    /// What is answered on a LUN that names nothing.
    pub fn no_unit(vendor: &str, product: &str, revision: &str) -> Self {
        Self {
            qualifier: QUALIFIER_NONE,
            device_type: DEVICE_NONE,
            implicit_alua: false,
            third_party_copy: false,
            multi_port: false,
            vendor: vendor.into(),
            product: product.into(),
            revision: revision.into(),
            versions: Vec::new(),
        }
    }
    /// The first byte, which VPD pages have too.
    pub fn peripheral(&self) -> u8 {
        self.qualifier << 5 | self.device_type & 0x1F
    }
    /// The data.
    pub fn to_bytes(&self) -> [u8; INQUIRY_BYTES] {
        let mut b = [0; INQUIRY_BYTES];
        b[0] = self.peripheral();
        b[2] = SPC_4;
        b[3] = 0x12; // HISUP, response data format 2
        b[4] = (INQUIRY_BYTES - 5) as u8;
        b[5] = u8::from(self.implicit_alua) << 4 | u8::from(self.third_party_copy) << 3;
        b[6] = u8::from(self.multi_port) << 4;
        b[7] = 0x02; // CMDQUE
        put(&mut b, 8, &padded::<8>(&self.vendor));
        put(&mut b, 16, &padded::<16>(&self.product));
        put(&mut b, 32, &padded::<4>(&self.revision));
        for (at, version) in self.versions.iter().take(VERSIONS_MAX).enumerate() {
            put(&mut b, 58 + 2 * at, &version.to_be_bytes());
        }
        b
    }
    /// From the data; `None` when the 36 bytes that all devices have are not there.
    pub fn parse(b: &[u8]) -> Option<Self> {
        let head = b.get(..36)?;
        let end = b.len().min(5 + usize::from(b[4]));
        let versions = (0..VERSIONS_MAX).map(|n| 58 + 2 * n).filter(|at| at + 2 <= end).map(|at| be16(b, at)).take_while(|v| *v != 0);
        Some(Self {
            qualifier: byte(b, 0) >> 5,
            device_type: byte(b, 0) & 0x1F,
            implicit_alua: bit(b, 5, 4),
            third_party_copy: bit(b, 5, 3),
            multi_port: bit(b, 6, 4),
            vendor: trimmed(&head[8..16]),
            product: trimmed(&head[16..32]),
            revision: trimmed(&head[32..36]),
            versions: versions.collect(),
        })
    }
}
