//! What a component says of its volume, so that devices describe themselves: the content of the descriptor of a component record.
//!
//! Owns: [`Descriptor`], its bytes and their bounds.
//! Invariants: a descriptor has one form; it always fits into a component record; its names are printable, so they can be shown as they are.
//! Never: says what is true now: size and names are those of when it was written; the directory has the last word.

use super::DiskError;
use super::bytes::*;
use super::component::DESCRIPTOR_BYTES_MAX;
use base::VolumeId;

/// A program reads descriptors up to this version.
pub const DESCRIPTOR_VERSION: u8 = 1;
/// The longest name of a volume or of a policy, in bytes.
pub const DESCRIPTOR_NAME_BYTES_MAX: usize = 63;

layout!(head: 34 bytes { 0: VERSION[1], 1: VOLUME[16], 17: LENGTH[8], 25: LBA_BYTES[4], 29: STRIPE[2], 31: STRIPES[2], 33: COPY[1] });

const _: () = assert!(head::BYTES + 2 * (1 + DESCRIPTOR_NAME_BYTES_MAX) <= DESCRIPTOR_BYTES_MAX);

/// What a component is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The volume.
    pub volume: VolumeId,
    /// The volume's size, in bytes.
    pub bytes: u64,
    /// Bytes of a logical block: 512 or 4096.
    pub lba_bytes: u32,
    /// Which stripe of the volume it is in, from 0.
    pub stripe: u16,
    /// Stripes of the volume.
    pub stripes: u16,
    /// Which copy of its stripe it is, from 0.
    pub copy: u8,
    /// The volume's name; 1 to [`DESCRIPTOR_NAME_BYTES_MAX`] printable ASCII characters without space.
    pub name: String,
    /// The name of the volume's policy, as the volume's.
    pub policy: String,
}

impl Descriptor {
    /// Its bytes.
    ///
    /// # Panics
    /// When a field is out of range.
    pub fn build(&self) -> Vec<u8> {
        use head::*;
        assert!(self.check().is_ok(), "{self:?} has a field that is out of range");
        let mut b = vec![0; BYTES];
        b[VERSION] = DESCRIPTOR_VERSION;
        put(&mut b, VOLUME, self.volume.as_bytes());
        put_u64(&mut b, LENGTH, self.bytes);
        put_u32(&mut b, LBA_BYTES, self.lba_bytes);
        put_u16(&mut b, STRIPE, self.stripe);
        put_u16(&mut b, STRIPES, self.stripes);
        b[COPY] = self.copy;
        for text in [&self.name, &self.policy] {
            b.push(text.len() as u8);
            b.extend_from_slice(text.as_bytes());
        }
        b
    }

    /// Reads the descriptor of a component record.
    pub fn parse(b: &[u8]) -> Result<Self, DiskError> {
        use head::*;
        let version = *b.get(VERSION).ok_or(DiskError::TooShort)?;
        if version > DESCRIPTOR_VERSION {
            return Err(DiskError::Newer { major: version.into() });
        }
        check(version != 0, "descriptor version")?;
        let (fixed, rest) = b.split_at_checked(BYTES).ok_or(DiskError::TooShort)?;
        let (name, rest) = text(rest)?;
        let (policy, rest) = text(rest)?;
        check(rest.is_empty(), "descriptor length")?;
        let descriptor = Self {
            volume: VolumeId::from_bytes(array_at(fixed, VOLUME)),
            bytes: u64_at(fixed, LENGTH),
            lba_bytes: u32_at(fixed, LBA_BYTES),
            stripe: u16_at(fixed, STRIPE),
            stripes: u16_at(fixed, STRIPES),
            copy: fixed[COPY],
            name: name.into(),
            policy: policy.into(),
        };
        descriptor.check()?;
        Ok(descriptor)
    }

    fn check(&self) -> Result<(), DiskError> {
        check(matches!(self.lba_bytes, 512 | 4096), "descriptor block size")?;
        check(self.stripe < self.stripes, "descriptor stripe")?;
        check(is_name(self.name.as_bytes()), "descriptor name")?;
        check(is_name(self.policy.as_bytes()), "descriptor policy")
    }
}

fn is_name(b: &[u8]) -> bool {
    (1..=DESCRIPTOR_NAME_BYTES_MAX).contains(&b.len()) && b.iter().all(u8::is_ascii_graphic)
}

/// A length byte, as many bytes of a name, and what follows.
fn text(b: &[u8]) -> Result<(&str, &[u8]), DiskError> {
    let (len, rest) = b.split_first().ok_or(DiskError::TooShort)?;
    check(usize::from(*len) <= DESCRIPTOR_NAME_BYTES_MAX, "descriptor name length")?;
    let (name, rest) = rest.split_at_checked(usize::from(*len)).ok_or(DiskError::TooShort)?;
    let name = core::str::from_utf8(name).map_err(|_| DiskError::Value { field: "descriptor name" })?;
    Ok((name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn descriptor() -> Descriptor {
        Descriptor {
            volume: VolumeId::from_bytes([7; 16]),
            bytes: 10 << 30,
            lba_bytes: 4096,
            stripe: 1,
            stripes: 2,
            copy: 3,
            name: "db".into(),
            policy: "gold".into(),
        }
    }

    /// Every byte is in its place: what older releases wrote reads as before.
    #[test]
    fn these_are_its_bytes() {
        let mut bytes = vec![1];
        bytes.extend([7; 16]);
        bytes.extend([0, 0, 0, 0x80, 2, 0, 0, 0]);
        bytes.extend([0, 16, 0, 0]);
        bytes.extend([1, 0, 2, 0, 3]);
        bytes.extend(b"\x02db\x04gold");
        assert_eq!(descriptor().build(), bytes);
        assert_eq!(Descriptor::parse(&bytes), Ok(descriptor()));
    }

    #[test]
    fn what_is_cut_is_refused_and_so_is_what_follows() {
        let good = descriptor().build();
        for len in 0..good.len() {
            assert_eq!(Descriptor::parse(&good[..len]), Err(DiskError::TooShort), "{len} bytes");
        }
        let longer = [&good[..], &[0]].concat();
        assert_eq!(Descriptor::parse(&longer), Err(DiskError::Value { field: "descriptor length" }));
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        let good = descriptor().build();
        let at = |at: usize, value: u8| {
            let mut bad = good.clone();
            bad[at] = value;
            Descriptor::parse(&bad)
        };
        assert_eq!(at(0, 0), Err(DiskError::Value { field: "descriptor version" }));
        assert_eq!(at(0, 2), Err(DiskError::Newer { major: 2 }));
        assert_eq!(at(26, 8), Err(DiskError::Value { field: "descriptor block size" }));
        assert_eq!(at(29, 2), Err(DiskError::Value { field: "descriptor stripe" }));
        assert_eq!(at(34, 64), Err(DiskError::Value { field: "descriptor name length" }));
        assert_eq!(at(35, 0xFF), Err(DiskError::Value { field: "descriptor name" }), "no text");
        assert_eq!(at(35, 0x1B), Err(DiskError::Value { field: "descriptor name" }), "not printable");
        assert_eq!(at(38, b'\n'), Err(DiskError::Value { field: "descriptor policy" }));
        let nameless = [&good[..34], b"\x00\x04gold"].concat();
        assert_eq!(Descriptor::parse(&nameless), Err(DiskError::Value { field: "descriptor name" }));
    }

    proptest! {
        #[test]
        fn descriptors_read_back(volume: [u8; 16], bytes: u64, small: bool, stripes in 1u16.., which: u16, copy: u8,
            name in "[!-~]{1,63}", policy in "[!-~]{1,63}") {
            let volume = VolumeId::from_bytes(volume);
            let lba_bytes = if small { 512 } else { 4096 };
            let d = Descriptor { volume, bytes, lba_bytes, stripe: which % stripes, stripes, copy, name, policy };
            let built = d.build();
            prop_assert!(built.len() <= DESCRIPTOR_BYTES_MAX);
            prop_assert_eq!(Descriptor::parse(&built), Ok(d));
        }
        #[test]
        fn what_parses_is_built_to_the_same(b in prop::collection::vec(any::<u8>(), 0..=DESCRIPTOR_BYTES_MAX), at in 0usize..50, with: u8) {
            let mut nearly = descriptor().build();
            let len = nearly.len();
            nearly[at % len] = with;
            for b in [b, nearly] {
                if let Ok(d) = Descriptor::parse(&b) {
                    prop_assert_eq!(d.build(), b);
                }
            }
        }
    }
}
