//! The model in a file, so that a volume can be checked after the client ended too.
//!
//! Layout, little-endian: magic 8 bytes, format `u32`, unit bytes `u32`, tag, seed, byte offset of the working set, clock,
//! number of units, number of entries (`u64` each), the settled units (`u64` each), the entries (unit, version, ended, replaced, flags: `u64` each), CRC-32C
//! of all before `u32`.
//! Invariant: what was in flight when it was written is a maybe when it is read. A damaged file is refused.

use super::model::{Before, Content, Entry, Model, Settled};
use super::pattern::Pattern;
use base::checksum::Crc32c;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

const MAGIC: &[u8; 8] = b"BSLTMODL";
const FORMAT: u32 = 1;
/// The largest working set a file may hold, in units: 8 GiB of memory.
const UNITS_MAX: u64 = 1 << 30;
const NONE: u64 = u64::MAX;

/// A model and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The pattern.
    pub pattern: Pattern,
    /// Bytes of a unit.
    pub unit_bytes: u32,
    /// Where the working set begins, in bytes of the namespace.
    pub offset: u64,
    /// The model.
    pub model: Model,
}

/// Why a file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Reading or writing failed.
    #[error("model file: {0}")]
    Io(#[from] std::io::Error),
    /// Not a model, or of another format.
    #[error("the file is not a saved model of format {FORMAT}")]
    NotAModel,
    /// Its checksum is wrong.
    #[error("the saved model is damaged: its checksum does not match")]
    Damaged,
}

struct Summing<T> {
    inner: T,
    crc: Crc32c,
}

impl<W: Write> Summing<W> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.crc.update(bytes);
        Ok(self.inner.write_all(bytes)?)
    }
    fn put_u64(&mut self, value: u64) -> Result<(), FileError> {
        self.put(&value.to_le_bytes())
    }
}

impl<R: Read> Summing<R> {
    fn get<const N: usize>(&mut self) -> Result<[u8; N], FileError> {
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => FileError::NotAModel,
            _ => FileError::Io(e),
        })?;
        self.crc.update(&bytes);
        Ok(bytes)
    }
    fn get_u64(&mut self) -> Result<u64, FileError> {
        Ok(u64::from_le_bytes(self.get()?))
    }
}

/// Writes it to `path`, through a temporary file beside it.
pub fn save(path: &Path, saved: &Saved) -> Result<(), FileError> {
    let temporary = path.with_extension("new");
    let mut out = Summing { inner: BufWriter::new(File::create(&temporary)?), crc: Crc32c::default() };
    let (m, entries) = (&saved.model, saved.model.open.values().map(Vec::len).sum::<usize>() as u64);
    out.put(MAGIC)?;
    out.put(&FORMAT.to_le_bytes())?;
    out.put(&saved.unit_bytes.to_le_bytes())?;
    for value in [saved.pattern.tag, saved.pattern.seed, saved.offset, m.clock, m.settled.len() as u64, entries] {
        out.put_u64(value)?;
    }
    for settled in &m.settled {
        out.put_u64(settled.0)?;
    }
    for (unit, e) in m.open.iter().flat_map(|(unit, entries)| entries.iter().map(move |e| (*unit, e))) {
        let flags = e.kind as u64 | u64::from(e.certain) << 2;
        for value in [unit, e.version, e.ended.unwrap_or(NONE), e.replaced.unwrap_or(NONE), flags] {
            out.put_u64(value)?;
        }
    }
    let crc = out.crc.value();
    out.inner.write_all(&crc.to_le_bytes())?;
    out.inner.into_inner().map_err(|e| e.into_error())?.sync_all()?;
    std::fs::rename(&temporary, path)?;
    Ok(())
}

/// Reads it back.
pub fn load(path: &Path) -> Result<Saved, FileError> {
    let mut from = Summing { inner: BufReader::new(File::open(path)?), crc: Crc32c::default() };
    if &from.get::<8>()? != MAGIC || u32::from_le_bytes(from.get()?) != FORMAT {
        return Err(FileError::NotAModel);
    }
    let unit_bytes = u32::from_le_bytes(from.get()?);
    let pattern = Pattern { tag: from.get_u64()?, seed: from.get_u64()? };
    let (offset, clock, units, entries) = (from.get_u64()?, from.get_u64()?, from.get_u64()?, from.get_u64()?);
    if units > UNITS_MAX || unit_bytes == 0 {
        return Err(FileError::NotAModel);
    }
    let mut model = Model::new(units, Before::Unknown);
    model.clock = clock;
    for unit in &mut model.settled {
        *unit = Settled(from.get_u64()?);
    }
    for _ in 0..entries {
        let (unit, version, ended, replaced, flags) = (from.get_u64()?, from.get_u64()?, from.get_u64()?, from.get_u64()?, from.get_u64()?);
        if unit >= units {
            return Err(FileError::NotAModel);
        }
        let kind = [Content::Data, Content::Zero, Content::Any, Content::Any][(flags & 3) as usize];
        let some = |v: u64| (v != NONE).then_some(v);
        model.open.entry(unit).or_default().push(Entry {
            version,
            kind,
            ended: some(ended),
            certain: flags & 4 != 0,
            replaced: some(replaced),
        });
    }
    let crc = from.crc.value();
    if u32::from_le_bytes(from.get()?) != crc {
        return Err(FileError::Damaged);
    }
    model.give_up_all();
    Ok(Saved { pattern, unit_bytes, offset, model })
}

#[cfg(test)]
mod tests {
    use super::super::model::{Change, Outcome, Span};
    use super::super::pattern::Found;
    use super::*;

    #[test]
    fn a_model_comes_back_with_its_flights_as_maybes_and_damage_is_refused() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("model");
        let mut model = Model::new(64, Before::Zero);
        let span = Span { first: 3, count: 5 };
        let old = model.begin_change(span, Change::Data);
        model.end_change(span, old, Outcome::Applied);
        let new = model.begin_change(span, Change::Data);
        let saved = Saved { pattern: Pattern { tag: 1, seed: 2 }, unit_bytes: 4096, offset: 8192, model };
        save(&path, &saved).expect("saved");
        let mut back = load(&path).expect("loaded");
        assert_eq!((back.pattern, back.unit_bytes, back.offset, back.model.clock), (saved.pattern, 4096, 8192, 4));
        for (found, legal) in [(new, true), (old, false)] {
            let t = back.model.begin_read();
            let bad = back.model.end_read(t, Span { first: 3, count: 1 }, &[Found::Version(found)]);
            assert_eq!(bad.is_empty(), legal);
        }
        let mut bytes = std::fs::read(&path).expect("read");
        bytes[100] ^= 1;
        std::fs::write(&path, &bytes).expect("write");
        assert!(matches!(load(&path), Err(FileError::Damaged)));
        std::fs::write(&path, &bytes[..50]).expect("write");
        assert!(matches!(load(&path), Err(FileError::NotAModel)));
    }
}
