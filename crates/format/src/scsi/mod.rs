//! SCSI: the bytes of commands of a block device, their parameter data and lists, sense data, LUNs.
//!
//! Owns: the layouts of SPC-4 and SBC-3, with what SBC-4 adds (WRITE ATOMIC, NDOB), and of LUNs and status codes of SAM-5. Big-endian.
//! Invariants: parsing never panics whatever the bytes; what is built parses to the same; a command that is refused has the sense data that
//! names the field; [`SUPPORTED`] is the one table of commands, for the parser and for REPORT SUPPORTED OPERATION CODES.
//! Never: decides anything, does I/O, keeps state.

mod wire;

pub mod alua;
pub mod capacity;
mod command;
pub mod copy;
mod decode;
pub mod designator;
mod encode;
pub mod inquiry;
mod invalid;
pub mod log;
mod lun;
pub mod mode;
pub mod reservation;
mod sense;
mod status;
pub mod supported;
pub mod transport_id;
pub mod vpd;

#[cfg(test)]
mod command_tests;
#[cfg(test)]
mod data_tests;
#[cfg(test)]
mod sense_tests;

pub use command::{
    BlockRange, ByteCheck, CDB_BYTES_MAX, CacheRange, Command, CopyResults, LogSense, ModeSelect, ModeSense, OpcodeQuery, PageControl,
    PersistentReserveOut, SelectReport, StartStop, Transfer, WriteSame,
};
pub use encode::Cdb;
pub use invalid::Invalid;
pub use lun::{FLAT_LUN_MAX, LUN_BYTES, Lun, WELL_KNOWN_REPORT_LUNS, build_luns, parse_luns};
pub use sense::{FIXED_SENSE_BYTES, FieldPointer, SENSE_BYTES_MAX, Sense, SenseCode, SenseKey, SenseSpecific};
pub use status::ScsiStatus;
pub use supported::{SUPPORTED, Supported};
pub use transport_id::{ISCSI_NAME_BYTES_MAX, TransportId, is_iscsi_name};
pub use wire::cut;
