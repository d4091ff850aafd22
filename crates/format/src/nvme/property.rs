//! Controller properties (base 3.1.3) that exist over fabrics.

/// Offset of Controller Capabilities, 8 bytes.
pub const CAP: u32 = 0x00;
/// Offset of Version, 4 bytes.
pub const VS: u32 = 0x08;
/// Offset of Controller Configuration, 4 bytes.
pub const CC: u32 = 0x14;
/// Offset of Controller Status, 4 bytes.
pub const CSTS: u32 = 0x1C;
/// Offset of NVM Subsystem Reset, 4 bytes.
pub const NSSR: u32 = 0x20;
/// Offset of Controller Ready Timeouts, 4 bytes.
pub const CRTO: u32 = 0x68;
/// Version 1.4.0.
pub const VERSION_1_4: u32 = 0x0001_0400;
/// Version 2.0.0.
pub const VERSION_2_0: u32 = 0x0002_0000;

/// Controller Capabilities (base 3.1.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Largest queue, entries minus one.
    pub mqes: u16,
    /// Contiguous Queues Required.
    pub cqr: bool,
    /// Longest time to ready, units of 500 ms.
    pub to: u8,
    /// Doorbell stride.
    pub dstrd: u8,
    /// NVM Subsystem Reset supported.
    pub nssrs: bool,
    /// Command sets supported; bit 0 NVM, bit 6 more by CNS 1Ch, bit 7 none.
    pub css: u8,
    /// Smallest page, 2^(12 + n).
    pub mpsmin: u8,
    /// Largest page, 2^(12 + n).
    pub mpsmax: u8,
    /// Controller Ready Modes Supported; bit 0: with media.
    pub crms: u8,
}

impl Capabilities {
    /// From the property.
    pub const fn parse(v: u64) -> Self {
        Self {
            mqes: v as u16,
            cqr: v >> 16 & 1 != 0,
            to: (v >> 24) as u8,
            dstrd: (v >> 32) as u8 & 15,
            nssrs: v >> 36 & 1 != 0,
            css: (v >> 37) as u8,
            mpsmin: (v >> 48) as u8 & 15,
            mpsmax: (v >> 52) as u8 & 15,
            crms: (v >> 59) as u8 & 3,
        }
    }
    /// The property.
    pub const fn bits(self) -> u64 {
        self.mqes as u64
            | (self.cqr as u64) << 16
            | (self.to as u64) << 24
            | ((self.dstrd & 15) as u64) << 32
            | (self.nssrs as u64) << 36
            | (self.css as u64) << 37
            | ((self.mpsmin & 15) as u64) << 48
            | ((self.mpsmax & 15) as u64) << 52
            | ((self.crms & 3) as u64) << 59
    }
}

/// Controller Configuration (base 3.1.3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Enable.
    pub en: bool,
    /// Command set selected.
    pub css: u8,
    /// Page size, 2^(12 + n).
    pub mps: u8,
    /// Arbitration: 0 round robin.
    pub ams: u8,
    /// Shutdown: 0 none, 1 normal, 2 abrupt.
    pub shn: u8,
    /// log2 of the submission entry size: 6.
    pub iosqes: u8,
    /// log2 of the completion entry size: 4.
    pub iocqes: u8,
    /// Ready independent of media.
    pub crime: bool,
}

impl Config {
    /// From the property.
    pub const fn parse(v: u32) -> Self {
        Self {
            en: v & 1 != 0,
            css: (v >> 4) as u8 & 7,
            mps: (v >> 7) as u8 & 15,
            ams: (v >> 11) as u8 & 7,
            shn: (v >> 14) as u8 & 3,
            iosqes: (v >> 16) as u8 & 15,
            iocqes: (v >> 20) as u8 & 15,
            crime: v >> 24 & 1 != 0,
        }
    }
    /// The property.
    pub const fn bits(self) -> u32 {
        self.en as u32
            | ((self.css & 7) as u32) << 4
            | ((self.mps & 15) as u32) << 7
            | ((self.ams & 7) as u32) << 11
            | ((self.shn & 3) as u32) << 14
            | ((self.iosqes & 15) as u32) << 16
            | ((self.iocqes & 15) as u32) << 20
            | (self.crime as u32) << 24
    }
}

/// Controller Status (base 3.1.3.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControllerStatus {
    /// Ready.
    pub rdy: bool,
    /// Controller Fatal Status.
    pub cfs: bool,
    /// Shutdown: 0 normal operation, 1 in progress, 2 complete.
    pub shst: u8,
}

impl ControllerStatus {
    /// From the property.
    pub const fn parse(v: u32) -> Self {
        Self { rdy: v & 1 != 0, cfs: v & 2 != 0, shst: (v >> 2) as u8 & 3 }
    }
    /// The property.
    pub const fn bits(self) -> u32 {
        self.rdy as u32 | (self.cfs as u32) << 1 | ((self.shst & 3) as u32) << 2
    }
}
