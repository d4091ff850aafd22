//! Records of the component table: what each component is, so that devices describe themselves.

use super::DiskError;
use super::bytes::*;
use super::log::COMPONENT_NO_MAX;
use super::page::{PAGE_BODY_BYTES, PAGE_BYTES, PAGE_HEADER_BYTES};
use base::{ComponentId, ObjectId};

/// The longest descriptor of a component, in bytes.
pub const DESCRIPTOR_BYTES_MAX: usize = 384;

layout!(record: 504 bytes {
    0: ID[16], 16: OBJECT[16], 32: NUMBER[4], 36: STATE[1], 37: FLAGS[1], 38: DESCRIPTOR_LEN[2], 40: LENGTH[8], 48: RESERVE[8],
    56: PARENT[4], 60: RESERVED_B[60], 120: DESCRIPTOR[384],
});

/// Bytes of a record.
pub const COMPONENT_RECORD_BYTES: usize = record::BYTES;
/// Records of a page.
pub const COMPONENTS_PER_PAGE: usize = PAGE_BODY_BYTES / COMPONENT_RECORD_BYTES;
const _: () = assert!(COMPONENTS_PER_PAGE * COMPONENT_RECORD_BYTES == PAGE_BODY_BYTES && COMPONENTS_PER_PAGE == 8);
const _: () = assert!(record::DESCRIPTOR + DESCRIPTOR_BYTES_MAX == record::BYTES);

/// Whether a component lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComponentState {
    /// It holds data.
    Active,
    /// It was deleted; the record stays so that its number is not given again.
    Deleted,
}

/// One component, as the table of its home device keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentRecord {
    /// Its name in the cluster.
    pub id: ComponentId,
    /// The object it is a part of.
    pub object: ObjectId,
    /// Its number in the group, 1..=[`COMPONENT_NO_MAX`]; never given twice.
    pub number: u32,
    /// Whether it lives.
    pub state: ComponentState,
    /// It is one copy of several (from format 4 on).
    pub copy: bool,
    /// Bytes of address space it covers.
    pub bytes: u64,
    /// Chunks promised to it.
    pub reserve_chunks: u64,
    /// Number of the component it was snapped from (0: none). Not used yet: always 0.
    pub parent: u32,
    /// What the layers above keep with it; at most [`DESCRIPTOR_BYTES_MAX`].
    pub descriptor: Vec<u8>,
}

fn place(i: usize) -> usize {
    assert!(i < COMPONENTS_PER_PAGE);
    PAGE_HEADER_BYTES + i * COMPONENT_RECORD_BYTES
}

/// Puts record `i` into a page (`None`: never used). The page must be sealed afterwards.
pub fn put_record(page: &mut [u8], i: usize, record: Option<&ComponentRecord>) {
    use record::*;
    let b = &mut page[place(i)..][..BYTES];
    b.fill(0);
    let Some(r) = record else { return };
    assert!(r.number != 0 && r.number <= COMPONENT_NO_MAX && r.descriptor.len() <= DESCRIPTOR_BYTES_MAX);
    put(b, ID, r.id.as_bytes());
    put(b, OBJECT, r.object.as_bytes());
    put_u32(b, NUMBER, r.number);
    b[STATE] = match r.state {
        ComponentState::Active => 1,
        ComponentState::Deleted => 2,
    };
    b[FLAGS] = u8::from(r.copy);
    put_u16(b, DESCRIPTOR_LEN, r.descriptor.len() as u16);
    put_u64(b, LENGTH, r.bytes);
    put_u64(b, RESERVE, r.reserve_chunks);
    put_u32(b, PARENT, r.parent);
    put(b, DESCRIPTOR, &r.descriptor);
}

/// Reads record `i` of a page whose header is good; `None`: never used.
pub fn get_record(page: &[u8], i: usize) -> Result<Option<ComponentRecord>, DiskError> {
    use record::*;
    let b = &page.get(..PAGE_BYTES).ok_or(DiskError::TooShort)?[place(i)..][..BYTES];
    let number = u32_at(b, NUMBER);
    if number == 0 {
        reserved(b, 0, BYTES)?;
        return Ok(None);
    }
    check(number <= COMPONENT_NO_MAX, "component number")?;
    let state = match b[STATE] {
        1 => ComponentState::Active,
        2 => ComponentState::Deleted,
        _ => return Err(DiskError::Value { field: "component state" }),
    };
    check(b[FLAGS] & !1 == 0, "component")?;
    reserved(b, RESERVED_B, DESCRIPTOR)?;
    let len = usize::from(u16_at(b, DESCRIPTOR_LEN));
    check(len <= DESCRIPTOR_BYTES_MAX, "descriptor length")?;
    reserved(b, DESCRIPTOR + len, BYTES)?;
    Ok(Some(ComponentRecord {
        id: ComponentId::from_bytes(array_at(b, ID)),
        object: ObjectId::from_bytes(array_at(b, OBJECT)),
        number,
        state,
        copy: b[FLAGS] & 1 == 1,
        bytes: u64_at(b, LENGTH),
        reserve_chunks: u64_at(b, RESERVE),
        parent: u32_at(b, PARENT),
        descriptor: b[DESCRIPTOR..DESCRIPTOR + len].to_vec(),
    }))
}
