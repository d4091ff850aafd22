//! Mode pages (SPC-4 7.5, SBC-3 6.5): what MODE SENSE returns, and what MODE SELECT may change.
//!
//! Owns: the pages caching, control, control extension and informational exceptions control.
//! Invariants: a page is built from [`ModeValues`] alone, and parses to them; a list that MODE SELECT refuses changes nothing.

use super::command::{ModeSense, PageControl};
use super::invalid::Invalid;
use super::wire::{be16, be24, be32, be64, bit, byte, len16, put};

/// Caching.
pub const PAGE_CACHING: u8 = 0x08;
/// Control; subpage 1 is control extension.
pub const PAGE_CONTROL: u8 = 0x0A;
/// Informational exceptions control.
pub const PAGE_EXCEPTIONS: u8 = 0x1C;
/// All pages.
pub const PAGE_ALL: u8 = 0x3F;
/// All subpages.
pub const SUBPAGE_ALL: u8 = 0xFF;
/// Subpage of control extension.
pub const SUBPAGE_CONTROL_EXTENSION: u8 = 0x01;

/// The pages that there are, with their subpages, in the order of MODE SENSE.
pub const PAGES: [(u8, u8); 4] = [(PAGE_CACHING, 0), (PAGE_CONTROL, 0), (PAGE_CONTROL, SUBPAGE_CONTROL_EXTENSION), (PAGE_EXCEPTIONS, 0)];

/// What the pages say; or, of changeable values, what a host may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModeValues {
    /// Caching: a volatile write cache is used (WCE).
    pub write_cache: bool,
    /// Control: sense data is in descriptor format (D_SENSE).
    pub descriptor_sense: bool,
    /// Control: software write protect (SWP).
    pub write_protect: bool,
    /// Control: what another I_T nexus aborts ends with TASK ABORTED (TAS).
    pub task_aborted_status: bool,
    /// Informational exceptions: they are not reported (DEXCPT).
    pub no_exceptions: bool,
}

impl ModeValues {
    /// All bits off.
    pub const NONE: ModeValues =
        ModeValues { write_cache: false, descriptor_sense: false, write_protect: false, task_aborted_status: false, no_exceptions: false };

    /// A page; `fixed`: with the fields that never change, which changeable values do not have.
    fn page(&self, page: (u8, u8), fixed: bool) -> Vec<u8> {
        let fixed = |value: u8| if fixed { value } else { 0 };
        match page {
            (PAGE_CACHING, _) => {
                let mut b = vec![0; 20];
                put(&mut b, 0, &[PAGE_CACHING, 18, u8::from(self.write_cache) << 2]);
                b
            }
            (PAGE_CONTROL, 0) => {
                let mut b = vec![0; 12];
                put(&mut b, 0, &[PAGE_CONTROL, 10, u8::from(self.descriptor_sense) << 2]);
                b[3] = fixed(0x10); // QUEUE ALGORITHM MODIFIER: unrestricted reordering
                b[4] = u8::from(self.write_protect) << 3;
                b[5] = u8::from(self.task_aborted_status) << 6;
                b
            }
            (PAGE_CONTROL, subpage) => {
                let mut b = vec![0; 32];
                put(&mut b, 0, &[0x40 | PAGE_CONTROL, subpage, 0, 28]);
                b[4] = fixed(0x01); // IALUAE: implicit changes of asymmetric access are enabled
                b
            }
            _ => {
                let mut b = vec![0; 12];
                put(&mut b, 0, &[page.0, 10, u8::from(self.no_exceptions) << 3]);
                b
            }
        }
    }
    /// Takes what a page says.
    fn take(&mut self, page: (u8, u8), b: &[u8]) {
        match page {
            (PAGE_CACHING, _) => self.write_cache = bit(b, 2, 2),
            (PAGE_CONTROL, 0) => {
                self.descriptor_sense = bit(b, 2, 2);
                self.write_protect = bit(b, 4, 3);
                self.task_aborted_status = bit(b, 5, 6);
            }
            (PAGE_EXCEPTIONS, _) => self.no_exceptions = bit(b, 2, 3),
            _ => {}
        }
    }
}

/// What a unit's mode pages say now, at first, and what may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModePages {
    /// Current values.
    pub current: ModeValues,
    /// Which of them MODE SELECT may change.
    pub changeable: ModeValues,
    /// Default values.
    pub default: ModeValues,
    /// The unit cannot be written (WP of the header).
    pub write_protected: bool,
    /// Blocks of the unit.
    pub blocks: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
}

/// DPOFUA of the header: DPO and FUA count.
const DPOFUA: u8 = 0x10;

impl ModePages {
    /// MODE SENSE: `None` for saved values, which there are none of (SAVING PARAMETERS NOT SUPPORTED).
    ///
    /// # Errors
    /// A page or a subpage that there is not.
    pub fn sense(&self, of: &ModeSense) -> Result<Option<Vec<u8>>, Invalid> {
        let (values, fixed) = match of.control {
            PageControl::Current => (&self.current, true),
            PageControl::Changeable => (&self.changeable, false),
            PageControl::Default => (&self.default, true),
            PageControl::Saved => return Ok(None),
        };
        let wanted =
            |(page, subpage): (u8, u8)| (of.page == PAGE_ALL || of.page == page) && (subpage == of.subpage || of.subpage == SUBPAGE_ALL);
        if of.page == PAGE_ALL && of.subpage != 0 && of.subpage != SUBPAGE_ALL {
            return Err(Invalid::cdb(3));
        }
        if !PAGES.into_iter().any(wanted) {
            let known = PAGES.iter().any(|(page, _)| of.page == *page);
            return Err(if known { Invalid::cdb(3) } else { Invalid::cdb_bit(2, 5) });
        }
        let pages = PAGES.into_iter().filter(|p| wanted(*p)).flat_map(|p| values.page(p, fixed));
        let descriptor = if of.no_descriptors { Vec::new() } else { self.descriptor(of.long_lba) };
        let device = u8::from(self.write_protected) << 7 | DPOFUA;
        let mut out = if of.long {
            let [hi, lo] = len16(descriptor.len());
            vec![0, 0, 0, device, u8::from(descriptor.len() == LONG_DESCRIPTOR_BYTES), 0, hi, lo]
        } else {
            vec![0, 0, device, descriptor.len() as u8]
        };
        out.extend_from_slice(&descriptor);
        out.extend(pages);
        let bytes = out.len();
        if of.long {
            put(&mut out, 0, &len16(bytes - 2));
        } else {
            out[0] = (bytes - 1) as u8;
        }
        Ok(Some(out))
    }
    fn descriptor(&self, long: bool) -> Vec<u8> {
        if long {
            return [&self.blocks.to_be_bytes()[..], &[0; 4], &self.block_bytes.to_be_bytes()].concat();
        }
        let blocks = u32::try_from(self.blocks).unwrap_or(u32::MAX);
        [blocks.to_be_bytes(), self.block_bytes.to_be_bytes()].concat()
    }

    /// What the current values are after a MODE SELECT with this list. A list that is empty changes nothing.
    ///
    /// # Errors
    /// A list that is cut off; a page that there is not, or of another length; a field that may not be changed and differs.
    pub fn select(&self, long: bool, b: &[u8]) -> Result<ModeValues, Invalid> {
        let mut values = self.current;
        if b.is_empty() {
            return Ok(values);
        }
        let head = if long { 8 } else { 4 };
        let descriptor = if long { usize::from(be16(b, 6)) } else { byte(b, 3).into() };
        let mut at = head + descriptor;
        if b.len() < at {
            return Err(Invalid::LIST_LENGTH);
        }
        self.check_descriptor(head, long && bit(b, 4, 0), &b[head..at])?;
        while at < b.len() {
            let with_subpage = bit(b, at, 6);
            let code = byte(b, at) & 0x3F;
            let (page, body, length) = if with_subpage {
                ((code, byte(b, at + 1)), 4, usize::from(be16(b, at + 2)))
            } else {
                ((code, 0), 2, usize::from(byte(b, at + 1)))
            };
            let given = b.get(at..at + body + length).ok_or(Invalid::LIST_LENGTH)?;
            self.check_page(at, page, given)?;
            values.take(page, given);
            at += given.len();
        }
        Ok(values)
    }
    fn check_descriptor(&self, at: usize, long: bool, b: &[u8]) -> Result<(), Invalid> {
        let (blocks, all, bytes) = match (b.len(), long) {
            (0, _) => return Ok(()),
            (SHORT_DESCRIPTOR_BYTES, false) => (be32(b, 0).into(), u64::from(u32::MAX), be24(b, 5)),
            (LONG_DESCRIPTOR_BYTES, true) => (be64(b, 0), u64::MAX, be32(b, 12)),
            _ => return Err(Invalid::parameter(if at == 4 { 3 } else { 6 })),
        };
        if blocks != 0 && blocks != all && blocks != self.blocks {
            return Err(Invalid::parameter(at));
        }
        if bytes != self.block_bytes {
            return Err(Invalid::parameter(at + if long { 12 } else { 5 }));
        }
        Ok(())
    }
    fn check_page(&self, at: usize, page: (u8, u8), given: &[u8]) -> Result<(), Invalid> {
        if !PAGES.contains(&page) {
            return Err(Invalid::parameter_bit(at, 5));
        }
        let (current, mask) = (self.current.page(page, true), self.changeable.page(page, false));
        if given.len() != current.len() {
            return Err(Invalid::parameter(at + if page.1 == 0 { 1 } else { 2 }));
        }
        let head = if page.1 == 0 { 2 } else { 4 };
        for n in head..given.len() {
            let wrong = (given[n] ^ current[n]) & !mask[n];
            if wrong != 0 {
                return Err(Invalid::parameter_bit(at + n, 7 - wrong.leading_zeros() as u8));
            }
        }
        Ok(())
    }
}

const SHORT_DESCRIPTOR_BYTES: usize = 8;
const LONG_DESCRIPTOR_BYTES: usize = 16;

/// What a host reads from MODE SENSE data with current values: whether the unit is write protected, and what the pages say.
pub fn parse_sensed(long: bool, b: &[u8]) -> Option<(bool, ModeValues)> {
    let (head, device, descriptor) = if long { (8, byte(b, 3), be16(b, 6).into()) } else { (4, byte(b, 2), usize::from(byte(b, 3))) };
    let mut rest = b.get(head + descriptor..)?;
    let mut values = ModeValues::NONE;
    while let Some(one) = rest.get(..2) {
        let with_subpage = one[0] & 0x40 != 0;
        let length = if with_subpage { 4 + usize::from(be16(rest, 2)) } else { 2 + usize::from(one[1]) };
        let Some(page) = rest.get(..length) else { break };
        values.take((one[0] & 0x3F, if with_subpage { one[1] } else { 0 }), page);
        rest = &rest[length..];
    }
    Some((device & 0x80 != 0, values))
}
