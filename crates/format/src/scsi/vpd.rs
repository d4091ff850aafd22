//! Vital product data but for designators: pages 00h, 80h, 86h, 8Fh (SPC-4 7.8), B0h, B1h, B2h (SBC-3 6.6).
//!
//! Invariant: what is built parses to the same, whatever follows the page.

use super::wire::{be16, be32, bit, byte, len16, put};

/// Supported VPD pages.
pub const PAGE_SUPPORTED: u8 = 0x00;
/// Unit serial number.
pub const PAGE_SERIAL: u8 = 0x80;
/// Device identification.
pub const PAGE_IDENTIFICATION: u8 = 0x83;
/// Extended INQUIRY data.
pub const PAGE_EXTENDED: u8 = 0x86;
/// Third-party copy.
pub const PAGE_COPY: u8 = 0x8F;
/// Block limits.
pub const PAGE_LIMITS: u8 = 0xB0;
/// Block device characteristics.
pub const PAGE_CHARACTERISTICS: u8 = 0xB1;
/// Logical block provisioning.
pub const PAGE_PROVISIONING: u8 = 0xB2;

/// A page: its head and `body`. `peripheral` is the first byte of the standard INQUIRY data.
pub fn build_page(peripheral: u8, page: u8, body: &[u8]) -> Vec<u8> {
    let [hi, lo] = len16(body.len());
    [&[peripheral, page, hi, lo], body].concat()
}
/// Page code and body, the body as far as it is there; `None` when there is no head.
pub fn parse_page(b: &[u8]) -> Option<(u8, &[u8])> {
    let body = b.get(4..)?;
    Some((b[1], &body[..usize::from(be16(b, 2)).min(body.len())]))
}

/// Page 00h: the pages that there are, ascending.
pub fn build_supported(peripheral: u8, pages: &[u8]) -> Vec<u8> {
    build_page(peripheral, PAGE_SUPPORTED, pages)
}
/// Page 80h.
pub fn build_serial(peripheral: u8, serial: &str) -> Vec<u8> {
    build_page(peripheral, PAGE_SERIAL, serial.as_bytes())
}

/// Page 86h. All three task attributes are supported, and a unit attention of one I_T nexus is not cleared by another (LUICLR).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtendedInquiry {
    /// There is a volatile cache (V_SUP).
    pub volatile_cache: bool,
    /// MAXIMUM SUPPORTED SENSE DATA LENGTH, bytes.
    pub sense_bytes_max: u8,
}
impl ExtendedInquiry {
    /// The page.
    pub fn to_bytes(self, peripheral: u8) -> Vec<u8> {
        let mut b = [0; 60];
        b[1] = 0x07; // HEADSUP, ORDSUP, SIMPSUP
        b[2] = u8::from(self.volatile_cache);
        b[3] = 0x01; // LUICLR
        b[9] = self.sense_bytes_max;
        build_page(peripheral, PAGE_EXTENDED, &b)
    }
    /// From the page.
    pub fn parse(b: &[u8]) -> Option<Self> {
        let (PAGE_EXTENDED, b) = parse_page(b)? else { return None };
        (b.len() >= 10).then(|| Self { volatile_cache: bit(b, 2, 0), sense_bytes_max: b[9] })
    }
}

macro_rules! numbers {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $at:literal $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }
        impl $name {
            fn put_numbers(&self, b: &mut [u8]) {
                $(put(b, $at, &self.$field.to_be_bytes());)*
            }
            fn numbers(b: &[u8]) -> Self {
                Self { $($field: <$type>::from_be_bytes(super::wire::array(b, $at)),)* }
            }
        }
    };
}

numbers! {
    /// Page B0h (SBC-4 6.6.4). Offsets are those of the page. 0 stands for "no limit" or "not there", as the standard says of each.
    BlockLimits {
        /// Bit 0 (WSNZ): WRITE SAME of 0 blocks is refused.
        4 flags: u8,
        /// MAXIMUM COMPARE AND WRITE LENGTH, blocks.
        5 compare_blocks_max: u8,
        /// OPTIMAL TRANSFER LENGTH GRANULARITY, blocks.
        6 transfer_granularity: u16,
        /// MAXIMUM TRANSFER LENGTH, blocks.
        8 transfer_max: u32,
        /// OPTIMAL TRANSFER LENGTH, blocks.
        12 transfer_optimal: u32,
        /// MAXIMUM PREFETCH LENGTH, blocks.
        16 prefetch_max: u32,
        /// MAXIMUM UNMAP LBA COUNT.
        20 unmap_blocks_max: u32,
        /// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT.
        24 unmap_descriptors_max: u32,
        /// OPTIMAL UNMAP GRANULARITY, blocks.
        28 unmap_granularity: u32,
        /// UGAVALID (bit 31) and UNMAP GRANULARITY ALIGNMENT.
        32 unmap_alignment: u32,
        /// MAXIMUM WRITE SAME LENGTH, blocks.
        36 write_same_max: u64,
        /// MAXIMUM ATOMIC TRANSFER LENGTH, blocks.
        44 atomic_max: u32,
        /// ATOMIC ALIGNMENT, blocks.
        48 atomic_alignment: u32,
        /// ATOMIC TRANSFER LENGTH GRANULARITY, blocks.
        52 atomic_granularity: u32,
        /// MAXIMUM ATOMIC TRANSFER LENGTH WITH ATOMIC BOUNDARY, blocks.
        56 atomic_max_with_boundary: u32,
        /// MAXIMUM ATOMIC BOUNDARY SIZE, blocks.
        60 atomic_boundary_max: u32,
    }
}
/// UGAVALID of [`BlockLimits::unmap_alignment`].
pub const UNMAP_ALIGNMENT_VALID: u32 = 1 << 31;
/// WSNZ of [`BlockLimits::flags`].
pub const WRITE_SAME_NON_ZERO: u8 = 1;

impl BlockLimits {
    /// Bytes of the page.
    pub const BYTES: usize = 64;
    /// The page.
    pub fn to_bytes(&self, peripheral: u8) -> Vec<u8> {
        let mut b = build_page(peripheral, PAGE_LIMITS, &[0; Self::BYTES - 4]);
        self.put_numbers(&mut b);
        b
    }
    /// From the page; what a short page does not have is 0.
    pub fn parse(b: &[u8]) -> Option<Self> {
        let (PAGE_LIMITS, body) = parse_page(b)? else { return None };
        Some(Self::numbers(&b[..4 + body.len()]))
    }
}

/// Page B1h: a medium that does not rotate.
pub fn build_characteristics(peripheral: u8) -> Vec<u8> {
    let mut b = [0; 60];
    b[1] = 1; // MEDIUM ROTATION RATE: non-rotating
    b[4] = 0x02; // FUAB: SYNCHRONIZE CACHE and FUA go to the medium
    build_page(peripheral, PAGE_CHARACTERISTICS, &b)
}

/// Page B2h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Provisioning {
    /// THRESHOLD EXPONENT: blocks of a threshold set, as a power of two; 0: no thresholds.
    pub threshold_exponent: u8,
    /// UNMAP is served (LBPU).
    pub unmap: bool,
    /// WRITE SAME (16) unmaps (LBPWS).
    pub write_same16: bool,
    /// WRITE SAME (10) unmaps (LBPWS10).
    pub write_same10: bool,
    /// What is unmapped reads as zeroes (LBPRZ 001b).
    pub reads_zeroes: bool,
    /// Thin provisioning (PROVISIONING TYPE 2); otherwise resource provisioned (1).
    pub thin: bool,
}
impl Provisioning {
    /// The page.
    pub fn to_bytes(self, peripheral: u8) -> Vec<u8> {
        let flags = u8::from(self.unmap) << 7
            | u8::from(self.write_same16) << 6
            | u8::from(self.write_same10) << 5
            | u8::from(self.reads_zeroes) << 2;
        build_page(peripheral, PAGE_PROVISIONING, &[self.threshold_exponent, flags, if self.thin { 2 } else { 1 }, 0])
    }
    /// From the page.
    pub fn parse(b: &[u8]) -> Option<Self> {
        let (PAGE_PROVISIONING, b) = parse_page(b)? else { return None };
        (b.len() >= 3).then(|| Self {
            threshold_exponent: b[0],
            unmap: bit(b, 1, 7),
            write_same16: bit(b, 1, 6),
            write_same10: bit(b, 1, 5),
            reads_zeroes: bit(b, 1, 2),
            thin: b[2] & 7 == 2,
        })
    }
}

/// What a copy manager can do: page 8Fh (SPC-4 7.8.17), and RECEIVE COPY OPERATING PARAMETERS (`copy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyLimits {
    /// Most target (CSCD) descriptors of a command.
    pub targets_max: u16,
    /// Most segment descriptors of a command.
    pub segments_max: u16,
    /// Most bytes of all descriptors of a command.
    pub list_bytes_max: u32,
    /// Most bytes of a segment.
    pub segment_bytes_max: u32,
    /// Copies of the copy manager that may be under way at once.
    pub concurrent_max: u8,
}

const COPY_SUPPORTED_COMMANDS: u16 = 0x0001;
const COPY_PARAMETER_DATA: u16 = 0x0004;
const COPY_SUPPORTED_DESCRIPTORS: u16 = 0x0008;
const COPY_GENERAL: u16 = 0x8001;

/// A third-party copy descriptor, padded to a multiple of four bytes.
fn copy_descriptor(out: &mut Vec<u8>, kind: u16, body: &[u8]) {
    let padded = body.len().next_multiple_of(4);
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&len16(padded));
    out.extend_from_slice(body);
    out.resize(out.len() + padded - body.len(), 0);
}

impl CopyLimits {
    /// Page 8Fh: EXTENDED COPY (LID1) of blocks to blocks, and RECEIVE COPY RESULTS but for held data.
    pub fn to_page(self, peripheral: u8) -> Vec<u8> {
        let mut out = Vec::new();
        copy_descriptor(&mut out, COPY_SUPPORTED_COMMANDS, &[8, 0x83, 1, 0x00, 0x84, 3, 0x00, 0x03, 0x04]);
        let mut data = [0; 28];
        put(&mut data, 4, &self.targets_max.to_be_bytes());
        put(&mut data, 6, &self.segments_max.to_be_bytes());
        put(&mut data, 8, &self.list_bytes_max.to_be_bytes());
        copy_descriptor(&mut out, COPY_PARAMETER_DATA, &data);
        copy_descriptor(&mut out, COPY_SUPPORTED_DESCRIPTORS, &[2, super::copy::SEGMENT_BLOCKS, super::copy::TARGET_IDENTIFICATION]);
        let mut general = [0; 32];
        put(&mut general, 0, &u32::from(self.concurrent_max).to_be_bytes());
        put(&mut general, 4, &u32::from(self.concurrent_max).to_be_bytes());
        put(&mut general, 8, &self.segment_bytes_max.to_be_bytes());
        copy_descriptor(&mut out, COPY_GENERAL, &general);
        build_page(peripheral, PAGE_COPY, &out)
    }
    /// From page 8Fh; what it does not have is 0.
    pub fn parse_page(b: &[u8]) -> Option<Self> {
        let (PAGE_COPY, mut rest) = parse_page(b)? else { return None };
        let mut out = Self::default();
        while let Some(body) = rest.get(4..).and_then(|b| b.get(..usize::from(be16(rest, 2)))) {
            match be16(rest, 0) {
                COPY_PARAMETER_DATA => {
                    (out.targets_max, out.segments_max, out.list_bytes_max) = (be16(body, 4), be16(body, 6), be32(body, 8));
                }
                COPY_GENERAL => {
                    (out.concurrent_max, out.segment_bytes_max) = (u8::try_from(be32(body, 0)).unwrap_or(u8::MAX), be32(body, 8));
                }
                _ => {}
            }
            rest = &rest[4 + body.len()..];
        }
        Some(out)
    }
}

/// The text of page 80h.
pub fn parse_serial(b: &[u8]) -> Option<String> {
    let (PAGE_SERIAL, body) = parse_page(b)? else { return None };
    Some(crate::nvme::text::trimmed(body))
}
/// The pages that page 00h names.
pub fn parse_supported(b: &[u8]) -> Option<&[u8]> {
    parse_page(b).filter(|_| byte(b, 1) == PAGE_SUPPORTED).map(|(_, body)| body)
}
