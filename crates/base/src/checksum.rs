//! CRC-32C (Castagnoli), as NVMe/TCP and iSCSI use it on the wire (RFC 3385) and Basalt keeps it for each block.

/// CRC-32C of `data`.
pub fn crc32c(data: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(data)
}

/// CRC-32C of data that comes in parts.
#[derive(Clone)]
pub struct Crc32c(crc_fast::Digest);

impl Default for Crc32c {
    fn default() -> Self {
        Self(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }
}

impl Crc32c {
    /// Takes the next part.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }
    /// The checksum of all parts so far.
    pub fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}

/// CRC-32 of IEEE 802.3 (reflected, polynomial EDB88320h), bit by bit: for a few bytes now and then, as in the keys of NVMe.
pub fn crc32(data: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
    !data.iter().fold(!0, |crc, b| (0..8).fold(crc ^ u32::from(*b), |crc, _| step(crc)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720 appendix B.4.
    #[test]
    fn the_published_examples_hold() {
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&ascending), 0x46DD_794E);
    }

    #[test]
    fn parts_give_the_checksum_of_the_whole() {
        let data: Vec<u8> = (0..10_000u32).map(|i| (i * 7) as u8).collect();
        for cut in [0, 1, 4095, 4096, 9_999, 10_000] {
            let mut parts = Crc32c::default();
            parts.update(&data[..cut]);
            parts.update(&data[cut..]);
            assert_eq!(parts.value(), crc32c(&data));
        }
    }
}
