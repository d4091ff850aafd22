//! Log pages (SPC-4 7.3, SBC-3 6.4): the lists of pages, logical block provisioning, temperature, informational exceptions.
//!
//! Invariant: what is built parses to the same.

use super::wire::{be16, byte, len16, put};

/// Supported log pages; subpage FFh is the list with subpages.
pub const PAGE_SUPPORTED: u8 = 0x00;
/// Logical block provisioning.
pub const PAGE_PROVISIONING: u8 = 0x0C;
/// Temperature.
pub const PAGE_TEMPERATURE: u8 = 0x0D;
/// Informational exceptions.
pub const PAGE_EXCEPTIONS: u8 = 0x2F;
/// Subpage that lists subpages.
pub const SUBPAGE_LIST: u8 = 0xFF;
/// PC of LOG SENSE: current cumulative values.
pub const CONTROL_CURRENT: u8 = 1;

/// Parameter of [`PAGE_PROVISIONING`]: available LBA mapping resources.
pub const AVAILABLE_RESOURCES: u16 = 0x0001;
/// Parameter of [`PAGE_PROVISIONING`]: used LBA mapping resources.
pub const USED_RESOURCES: u16 = 0x0002;
/// Parameter of [`PAGE_TEMPERATURE`]: degrees Celsius now; FFh unknown.
pub const TEMPERATURE: u16 = 0x0000;
/// Parameter of [`PAGE_TEMPERATURE`]: degrees Celsius that the device endures.
pub const REFERENCE_TEMPERATURE: u16 = 0x0001;
/// A temperature that is not known.
pub const TEMPERATURE_UNKNOWN: u8 = 0xFF;

/// FORMAT AND LINKING of a parameter: a binary list.
const BINARY_LIST: u8 = 0x03;
const HEAD_BYTES: usize = 4;

/// Whom the resources of a parameter belong to (SBC-3 table 176).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceScope {
    /// It is not said.
    Unspecified,
    /// This logical unit alone.
    Unit,
    /// Perhaps others too.
    Shared,
}

/// A log parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogParameter {
    /// Its code.
    pub code: u16,
    /// Its value, at most 255 bytes.
    pub value: Vec<u8>,
}

impl LogParameter {
    /// A count of LBA mapping resources, in threshold sets.
    pub fn resources(code: u16, sets: u32, scope: ResourceScope) -> Self {
        let [a, b, c, d] = sets.to_be_bytes();
        Self { code, value: vec![a, b, c, d, scope as u8, 0, 0, 0] }
    }
    /// A temperature, degrees Celsius.
    pub fn temperature(code: u16, celsius: u8) -> Self {
        Self { code, value: vec![0, celsius] }
    }
    /// Informational exceptions: sense code of the exception (0 none) and the temperature.
    pub fn exception(code: super::sense::SenseCode, celsius: u8) -> Self {
        Self { code: 0, value: vec![code.asc(), code.ascq(), celsius, 0] }
    }
}

fn head(page: u8, subpage: u8) -> Vec<u8> {
    vec![u8::from(subpage != 0) << 6 | page & 0x3F, subpage, 0, 0]
}
fn close(mut out: Vec<u8>) -> Vec<u8> {
    let bytes = len16(out.len() - HEAD_BYTES);
    put(&mut out, 2, &bytes);
    out
}

/// A page of parameters: those with codes from `pointer` on. `parameters` ascend.
pub fn build_page(page: u8, subpage: u8, parameters: &[LogParameter], pointer: u16) -> Vec<u8> {
    let mut out = head(page, subpage);
    for p in parameters.iter().filter(|p| p.code >= pointer) {
        let value = &p.value[..p.value.len().min(u8::MAX.into())];
        let [hi, lo] = p.code.to_be_bytes();
        out.extend_from_slice(&[hi, lo, BINARY_LIST, value.len() as u8]);
        out.extend_from_slice(value);
    }
    close(out)
}
/// Page 00h: the pages, ascending.
pub fn build_supported(pages: &[u8]) -> Vec<u8> {
    close([&head(PAGE_SUPPORTED, 0), pages].concat())
}
/// Page 00h, subpage FFh: the pages with their subpages, ascending.
pub fn build_supported_subpages(pages: &[(u8, u8)]) -> Vec<u8> {
    let mut out = head(PAGE_SUPPORTED, SUBPAGE_LIST);
    pages.iter().for_each(|(page, subpage)| out.extend_from_slice(&[*page, *subpage]));
    close(out)
}

/// Page and subpage, and the body as far as it is there.
pub fn parse_page(b: &[u8]) -> Option<((u8, u8), &[u8])> {
    let body = b.get(HEAD_BYTES..)?;
    Some(((b[0] & 0x3F, b[1]), &body[..usize::from(be16(b, 2)).min(body.len())]))
}
/// The parameters of a body that are there in full.
pub fn parse_parameters(mut body: &[u8]) -> Vec<LogParameter> {
    let mut out = Vec::new();
    while let Some(value) = body.get(4..4 + usize::from(byte(body, 3))) {
        out.push(LogParameter { code: be16(body, 0), value: value.to_vec() });
        body = &body[4 + value.len()..];
    }
    out
}
