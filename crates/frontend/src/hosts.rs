//! What each host did on one core, by class of command: counters, as both front ends have them.
//!
//! Owns: which hosts are counted apart, at most [`HOSTS_COUNTED_MAX`]. One that is gone makes room for another; what it did is then with the others.
//! Invariants: counting a command adds to fields and takes no memory; every command is counted once, with its host or with the others.

use base::Histogram;

/// Hosts that are counted apart at once, on a core. Each takes 8 KiB.
pub const HOSTS_COUNTED_MAX: usize = 256;

/// Classes of commands that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandClass {
    /// Read.
    Read,
    /// Write, also on a condition, and what copies.
    Write,
    /// Compare, and verify.
    Compare,
    /// Make durable.
    Flush,
    /// Deallocate, and write zeroes or the same again and again.
    Deallocate,
    /// All others, and what was refused before it began.
    Admin,
}

impl CommandClass {
    /// All of them; a class is its index.
    pub const ALL: [CommandClass; 6] = [
        CommandClass::Read,
        CommandClass::Write,
        CommandClass::Compare,
        CommandClass::Flush,
        CommandClass::Deallocate,
        CommandClass::Admin,
    ];
    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            CommandClass::Read => "read",
            CommandClass::Write => "write",
            CommandClass::Compare => "compare",
            CommandClass::Flush => "flush",
            CommandClass::Deallocate => "deallocate",
            CommandClass::Admin => "admin",
        }
    }
}

base::counters! {
    /// One class.
    #[derive(Clone, Debug, Default)]
    pub struct ClassStats {
        /// Commands completed.
        pub commands: u64 = counter("commands"),
        /// Commands completed with an error.
        pub errors: u64 = counter("command_errors"),
        /// Bytes of data of the commands without an error.
        pub bytes: u64 = counter("data_bytes"),
        /// From the command to its response.
        pub latency: Histogram,
    }
}

impl ClassStats {
    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        self.commands += other.commands;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
    }
}

/// By [`CommandClass`], as an index.
pub type Classes = [ClassStats; CommandClass::ALL.len()];

/// What the queues of one host did on one core.
#[derive(Clone, Debug, Default)]
pub struct HostCounters {
    /// Its name.
    pub name: String,
    /// Its queues for I/O, or its sessions.
    pub queues: u32,
    /// Commands under way; in a snapshot only.
    pub running: u64,
    /// What it did.
    pub classes: Classes,
}

impl HostCounters {
    fn called(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
    /// Adds all of another, which may be another host's.
    pub fn merge(&mut self, other: &Self) {
        self.queues += other.queues;
        self.running += other.running;
        merge(&mut self.classes, &other.classes);
    }
}

/// Where a queue counts in a [`HostTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPlace(u16);

impl HostPlace {
    /// With those that are not counted apart.
    pub const NONE: Self = Self(u16::MAX);
}

/// The hosts of one core.
#[derive(Clone, Debug, Default)]
pub struct HostTable {
    /// Hosts that are counted apart: a command of theirs is counted here only.
    pub apart: Vec<HostCounters>,
    /// All that is not counted with one of them; those that are gone are among it. It has no name.
    pub others: HostCounters,
}

impl HostTable {
    /// Where a command of a class is counted, of a queue with this place.
    #[inline]
    pub fn class(&mut self, place: HostPlace, class: CommandClass) -> &mut ClassStats {
        match self.apart.get_mut(usize::from(place.0)) {
            Some(host) => &mut host.classes[class as usize],
            None => &mut self.others.classes[class as usize],
        }
    }
    /// A queue of a host begins. Its host gets a place: its own, a new one, or that of a host that has no queue any more.
    pub fn queue_begins(&mut self, name: &str) -> HostPlace {
        let mut at = self.apart.iter().position(|host| host.name == name);
        if at.is_none() && self.apart.len() < HOSTS_COUNTED_MAX {
            at = Some(self.apart.len());
            self.apart.push(HostCounters::called(name));
        }
        let at = at.or_else(|| {
            let idle = self.apart.iter().position(|host| host.queues == 0)?;
            let gone = std::mem::replace(&mut self.apart[idle], HostCounters::called(name));
            merge(&mut self.others.classes, &gone.classes);
            Some(idle)
        });
        let place = at.map_or(HostPlace::NONE, |at| HostPlace(at as u16));
        self.at(place).queues += 1;
        place
    }
    /// A queue that began with this place is gone.
    pub fn queue_ends(&mut self, place: HostPlace) {
        self.at(place).queues -= 1;
    }
    fn at(&mut self, place: HostPlace) -> &mut HostCounters {
        self.apart.get_mut(usize::from(place.0)).unwrap_or(&mut self.others)
    }
    /// Makes a copy a snapshot: with what runs, the place of each queue and how many of its commands.
    pub fn add_running(&mut self, running: impl Iterator<Item = (HostPlace, u64)>) {
        running.for_each(|(place, commands)| self.at(place).running += commands);
    }
    /// All that was counted.
    pub fn sums(&self) -> Classes {
        let mut sums = self.others.classes.clone();
        self.apart.iter().for_each(|host| merge(&mut sums, &host.classes));
        sums
    }
}

fn merge(classes: &mut Classes, others: &Classes) {
    classes.iter_mut().zip(others).for_each(|(class, other)| class.merge(other));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(table: &mut HostTable, place: HostPlace, bytes: u64) {
        let class = table.class(place, CommandClass::Read);
        class.commands += 1;
        class.bytes += bytes;
        class.latency.record(bytes);
    }

    #[test]
    fn a_host_is_counted_apart_and_within_the_sums() {
        let mut table = HostTable::default();
        let (a, b) = (table.queue_begins("a"), table.queue_begins("b"));
        assert_eq!(table.queue_begins("a"), a, "a second queue of the same host");
        read(&mut table, a, 4096);
        read(&mut table, b, 512);
        read(&mut table, HostPlace::NONE, 1);
        table.queue_ends(b);
        let mut now = table.clone();
        now.add_running([(a, 3), (a, 4), (HostPlace::NONE, 9)].into_iter());
        let of = |host: &HostCounters| (host.name.clone(), host.queues, host.running, host.classes[0].bytes);
        assert_eq!((of(&now.apart[0]), of(&now.apart[1])), (("a".into(), 2, 7, 4096), ("b".into(), 0, 0, 512)));
        assert_eq!(of(&now.others), (String::new(), 0, 9, 1));
        let all = &now.sums()[CommandClass::Read as usize];
        assert_eq!((all.commands, all.bytes, all.latency.count()), (3, 4609, 3));
    }

    #[test]
    fn at_most_so_many_hosts_are_counted_apart_and_one_that_is_gone_makes_room() {
        let mut table = HostTable::default();
        let places: Vec<_> = (0..HOSTS_COUNTED_MAX).map(|n| table.queue_begins(&format!("h{n}"))).collect();
        assert_eq!(table.queue_begins("late"), HostPlace::NONE);
        read(&mut table, HostPlace::NONE, 5);
        read(&mut table, places[7], 100);
        table.queue_ends(places[7]);
        assert_eq!(table.queue_begins("later"), places[7]);
        let now = table.clone();
        assert_eq!((now.apart.len(), now.apart[7].classes[0].bytes, now.sums()[0].bytes), (HOSTS_COUNTED_MAX, 0, 105));
        assert_eq!(
            (now.others.queues, now.others.classes[0].bytes),
            (1, 105),
            "one that is not counted apart, and what one did that is gone"
        );
        table.queue_ends(HostPlace::NONE);
        assert_eq!(table.others.queues, 0);
    }
}
