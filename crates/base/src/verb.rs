//! What an I/O does: the one list of verbs, and the classes that they are counted by.
//!
//! A layer whose requests carry data has an enum of its own for them, and says with a verb what each of them does.
//! Never: knows what an I/O carries, or how a protocol spells it.

/// What an I/O does to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IoVerb {
    /// Gives the data.
    Read,
    /// Reads the data and checks it, and gives nothing back.
    Verify,
    /// Compares the data with what the request brings.
    Compare,
    /// Replaces the data.
    Write,
    /// Replaces the data if it equals what the request brings, with nothing in between.
    CompareWrite,
    /// Replaces the data by that of other ranges.
    Copy,
    /// Makes the range read as zeroes.
    Zero,
    /// Gives the range up: what it reads as is for each layer to say.
    Trim,
    /// Lets reads of the range fail until it is changed.
    Uncorrectable,
    /// Makes durable what was answered before.
    Flush,
}

/// What an I/O is counted as, where reads, writes and discards are counted apart. As a number it is an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IoClass {
    /// The data is read.
    Read,
    /// The data is replaced.
    Write,
    /// The data is discarded.
    Discard,
}

impl IoVerb {
    /// All of them; a verb is its index.
    pub const ALL: [IoVerb; 10] = [
        IoVerb::Read,
        IoVerb::Verify,
        IoVerb::Compare,
        IoVerb::Write,
        IoVerb::CompareWrite,
        IoVerb::Copy,
        IoVerb::Zero,
        IoVerb::Trim,
        IoVerb::Uncorrectable,
        IoVerb::Flush,
    ];
    /// Its name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            IoVerb::Read => "read",
            IoVerb::Verify => "verify",
            IoVerb::Compare => "compare",
            IoVerb::Write => "write",
            IoVerb::CompareWrite => "compare_write",
            IoVerb::Copy => "copy",
            IoVerb::Zero => "zero",
            IoVerb::Trim => "trim",
            IoVerb::Uncorrectable => "uncorrectable",
            IoVerb::Flush => "flush",
        }
    }
    /// What it is counted as; `None` for what concerns no data.
    #[inline]
    pub const fn class(self) -> Option<IoClass> {
        match self {
            IoVerb::Read | IoVerb::Verify | IoVerb::Compare => Some(IoClass::Read),
            IoVerb::Write | IoVerb::CompareWrite | IoVerb::Copy => Some(IoClass::Write),
            IoVerb::Zero | IoVerb::Trim | IoVerb::Uncorrectable => Some(IoClass::Discard),
            IoVerb::Flush => None,
        }
    }
    /// Whether reads may find something else after it.
    #[inline]
    pub const fn changes(self) -> bool {
        !matches!(self, IoVerb::Read | IoVerb::Verify | IoVerb::Compare | IoVerb::Flush)
    }
}

impl IoClass {
    /// All of them.
    pub const ALL: [IoClass; 3] = [IoClass::Read, IoClass::Write, IoClass::Discard];
    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            IoClass::Read => "read",
            IoClass::Write => "write",
            IoClass::Discard => "discard",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_and_classes_are_their_indices_and_have_names_of_their_own() {
        assert!(IoVerb::ALL.iter().enumerate().all(|(n, verb)| *verb as usize == n));
        assert!(IoClass::ALL.iter().enumerate().all(|(n, class)| *class as usize == n));
        let names: std::collections::BTreeSet<_> = IoVerb::ALL.iter().map(|v| v.name()).collect();
        assert_eq!(names.len(), IoVerb::ALL.len());
    }

    #[test]
    fn what_changes_data_is_no_read_and_no_flush() {
        let kept: Vec<_> = IoVerb::ALL.into_iter().filter(|v| !v.changes()).collect();
        assert_eq!(kept, [IoVerb::Read, IoVerb::Verify, IoVerb::Compare, IoVerb::Flush]);
    }
}
