//! Reading many keys, as of one revision.
//!
//! Invariants: all pages are of the revision of the first; a page that is too large is read in smaller ones.
//! Never: gives a part.

use super::core::{Core, Until, is_too_large};
use crate::DirectoryError;
use ::etcd::{
    EtcdError, Refusal,
    message::{KeyValue, RangeRequest},
    prefix_end,
};

/// Keys of a page, at most and at least.
const PAGE_KEYS_MAX: i64 = 500;
/// As many of the largest values fit into a message.
const PAGE_KEYS_MIN: i64 = 32;
/// How often it begins anew because the revision is compacted away.
const BEGIN_MAX: u32 = 5;

const _: () = assert!(PAGE_KEYS_MIN as usize * (crate::VALUE_BYTES_MAX + crate::KEY_BYTES_MAX + 128) < ::etcd::MESSAGE_BYTES_MAX);

/// All keys with a prefix, at one revision.
#[derive(Debug, Default)]
pub(super) struct Pages {
    pub revision: i64,
    pub kvs: Vec<KeyValue>,
}

impl Core {
    /// Reads all keys with a prefix, linearizably.
    pub async fn read_all(&self, prefix: &[u8], until: Until) -> Result<Pages, DirectoryError> {
        for _ in 0..BEGIN_MAX {
            match self.read_pages(prefix, until).await {
                Err(Problem::Compacted) => {}
                Err(Problem::Directory(error)) => return Err(error),
                Ok(pages) => return Ok(pages),
            }
        }
        Err(DirectoryError::Unavailable)
    }

    async fn read_pages(&self, prefix: &[u8], until: Until) -> Result<Pages, Problem> {
        let (mut pages, mut from, mut limit) = (Pages::default(), prefix.to_vec(), PAGE_KEYS_MAX);
        let range_end = prefix_end(prefix);
        loop {
            let page =
                RangeRequest { key: from.clone(), range_end: range_end.clone(), limit, revision: pages.revision, ..Default::default() };
            let before = self.seen_revision();
            let answer = match self.client.range(&page, until).await {
                Err(EtcdError::Refused(Refusal::Compacted)) => return Err(Problem::Compacted),
                Err(error) if is_too_large(&error) && limit > PAGE_KEYS_MIN => {
                    limit = (limit / 4).max(PAGE_KEYS_MIN);
                    continue;
                }
                Err(error) => return Err(self.error_of_read(error).into()),
                Ok(answer) => answer,
            };
            let revision = self.observe(before, answer.header.as_ref())?;
            if pages.revision == 0 {
                pages.revision = revision;
            }
            let more = answer.more;
            pages.kvs.extend(answer.kvs);
            match pages.kvs.last() {
                // The next key after the last one.
                Some(last) if more => from = [last.key.as_slice(), &[0]].concat(),
                _ => return Ok(pages),
            }
        }
    }
}

enum Problem {
    Compacted,
    Directory(DirectoryError),
}

impl From<DirectoryError> for Problem {
    fn from(error: DirectoryError) -> Self {
        Self::Directory(error)
    }
}
