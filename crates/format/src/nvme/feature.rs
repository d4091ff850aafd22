//! Features: identifiers and the fields of their dwords (base 5.27.1; nvm 4.1.4).

/// Arbitration.
pub const FID_ARBITRATION: u8 = 0x01;
/// Power management.
pub const FID_POWER: u8 = 0x02;
/// Temperature threshold.
pub const FID_TEMPERATURE: u8 = 0x04;
/// Error recovery.
pub const FID_ERROR_RECOVERY: u8 = 0x05;
/// Volatile write cache.
pub const FID_WRITE_CACHE: u8 = 0x06;
/// Number of queues.
pub const FID_QUEUES: u8 = 0x07;
/// Interrupt coalescing (not for fabrics).
pub const FID_INTERRUPT_COALESCING: u8 = 0x08;
/// Write atomicity normal.
pub const FID_WRITE_ATOMICITY: u8 = 0x0A;
/// Asynchronous event configuration.
pub const FID_ASYNC_EVENTS: u8 = 0x0B;
/// Timestamp.
pub const FID_TIMESTAMP: u8 = 0x0E;
/// Keep Alive Timer.
pub const FID_KEEP_ALIVE: u8 = 0x0F;
/// Host behaviour support.
pub const FID_HOST_BEHAVIOUR: u8 = 0x16;
/// Software progress marker.
pub const FID_PROGRESS_MARKER: u8 = 0x80;
/// Host identifier.
pub const FID_HOST_ID: u8 = 0x81;
/// Reservation notification mask.
pub const FID_RESERVATION_MASK: u8 = 0x82;
/// Reservation persistence.
pub const FID_RESERVATION_PERSISTENCE: u8 = 0x83;
/// Namespace write protection.
pub const FID_WRITE_PROTECT: u8 = 0x84;

/// Async event configuration: SMART / health critical warnings.
pub const AEC_HEALTH: u32 = 0xFF;
/// Async event configuration: namespace attribute notices (also OAES).
pub const AEC_NAMESPACE: u32 = 1 << 8;
/// Async event configuration: firmware activation notices (also OAES).
pub const AEC_FIRMWARE: u32 = 1 << 9;
/// Async event configuration: ANA change notices (also OAES).
pub const AEC_ANA: u32 = 1 << 11;
/// Async event configuration: discovery log change notices (also OAES).
pub const AEC_DISCOVERY: u32 = 1 << 31;

/// Bytes of the Host Behaviour Support data.
pub const HOST_BEHAVIOUR_BYTES: usize = 512;

/// SEL of Get Features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    /// Current value.
    Current,
    /// Default value.
    Default,
    /// Saved value.
    Saved,
    /// What is supported: bit 0 saveable, bit 1 namespace specific, bit 2 changeable.
    Supported,
}

/// Number of Queues, both ways (dword 11 to set, dword 0 of the result): each minus one.
pub const fn queues(submission: u16, completion: u16) -> u32 {
    submission as u32 | (completion as u32) << 16
}
