//! Counters: each has its field, its name and its help text in one place, and is summed and published from there.
//!
//! Owns: the macro [`counters!`](crate::counters!), and [`Figures`], what it gives to who publishes.
//! Invariant: a name is there once; its values are added up, or the largest is kept.
//! Never: on the path of an I/O. Adding to a counter is adding to a field.

use crate::Duration;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::borrow::Cow;

/// What a figure says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// How much there was since the start: it only grows.
    Counter,
    /// How much there is now.
    Gauge,
    /// How much there is now, at the place that has most.
    GaugeMax,
}

/// A value with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its name within its layer, with the unit.
    pub name: Cow<'static, str>,
    /// What it is, for people: a sentence.
    pub help: &'static str,
    /// What it says.
    pub kind: FigureKind,
    /// How much.
    pub value: u64,
}

/// The figures of a layer, each name once, in the order of their declaration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures(Vec<Figure>);

/// A struct of counters: what [`counters!`](crate::counters!) makes.
pub trait Counters {
    /// Adds its figures; `prefix` stands before each name.
    fn add_to(&self, figures: &mut Figures, prefix: &'static str);
}

impl<C: Counters, const N: usize> Counters for [C; N] {
    fn add_to(&self, figures: &mut Figures, prefix: &'static str) {
        self.iter().for_each(|one| one.add_to(figures, prefix));
    }
}

impl Figures {
    /// The sum of several structs of counters; all names are there when there are none.
    pub fn sum<'a, C: Counters + Default + 'a>(all: impl IntoIterator<Item = &'a C>) -> Self {
        let mut figures = Self::default();
        C::default().add_to(&mut figures, "");
        all.into_iter().for_each(|one| one.add_to(&mut figures, ""));
        figures
    }
    /// Those of one struct of counters.
    pub fn of(one: &impl Counters) -> Self {
        let mut figures = Self::default();
        one.add_to(&mut figures, "");
        figures
    }
    /// Adds a value.
    pub fn add(&mut self, (prefix, name): (&'static str, &'static str), help: &'static str, kind: FigureKind, value: u64) {
        match self.0.iter_mut().find(|f| f.name.strip_prefix(prefix) == Some(name)) {
            Some(same) => {
                debug_assert!((same.kind, same.help) == (kind, help), "{prefix}{name} is declared twice");
                same.value = if kind == FigureKind::GaugeMax { same.value.max(value) } else { same.value.wrapping_add(value) };
            }
            None => {
                let name = if prefix.is_empty() { Cow::Borrowed(name) } else { Cow::Owned(format!("{prefix}{name}")) };
                self.0.push(Figure { name, help, kind, value });
            }
        }
    }
    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter().find(|f| f.name == name).map(|f| f.value)
    }
    /// All of them.
    pub fn iter(&self) -> core::slice::Iter<'_, Figure> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Figures {
    type Item = &'a Figure;
    type IntoIter = core::slice::Iter<'a, Figure>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// What a field of a struct of counters may be.
pub trait CounterValue {
    /// The number now.
    fn value(&self) -> u64;
}

impl CounterValue for u64 {
    fn value(&self) -> u64 {
        *self
    }
}

impl CounterValue for u32 {
    fn value(&self) -> u64 {
        (*self).into()
    }
}

/// One, when it is so.
impl CounterValue for bool {
    fn value(&self) -> u64 {
        (*self).into()
    }
}

impl CounterValue for AtomicU64 {
    fn value(&self) -> u64 {
        self.load(Relaxed)
    }
}

/// Milliseconds.
impl CounterValue for Duration {
    fn value(&self) -> u64 {
        self.as_millis() as u64
    }
}

/// How many there are.
impl<T> CounterValue for Vec<T> {
    fn value(&self) -> u64 {
        self.len() as u64
    }
}

/// Their sum.
impl<const N: usize> CounterValue for [u64; N] {
    fn value(&self) -> u64 {
        self.iter().sum()
    }
}

/// A struct of counters. A field that is published has its name behind it, and its documentation is the help text of the figure:
///
/// ```
/// base::counters! {
///     /// What a queue did.
///     #[derive(Default)]
///     pub struct QueueStats {
///         /// Entries taken from the queue.
///         pub taken: u64 = counter("entries_taken"),
///         /// Entries in the queue.
///         pub waiting: u32 = gauge("entries"),
///         /// The longest that an entry has waited, in milliseconds.
///         pub wait_max: base::Duration = gauge_max("wait_milliseconds"),
///         /// Not published.
///         pub at: usize,
///     }
/// }
/// let two = [QueueStats { taken: 3, ..Default::default() }, QueueStats { taken: 4, ..Default::default() }];
/// assert_eq!(base::counters::Figures::sum(&two).get("entries_taken"), Some(7));
/// ```
///
/// A second string is the help text where that has to differ from the documentation. `each("prefix")` publishes the figures of a struct of
/// counters, or of an array of them, with a prefix before their names.
#[macro_export]
macro_rules! counters {
    (@add $self:ident $figures:ident $prefix:ident $field:ident [] $doc:tt) => {};
    (@add $self:ident $figures:ident $prefix:ident $field:ident [each($name:literal)] $doc:tt) => {
        debug_assert!($prefix.is_empty(), "one level of prefixes");
        $crate::counters::Counters::add_to(&$self.$field, $figures, $name);
    };
    (@add $self:ident $figures:ident $prefix:ident $field:ident [$kind:ident($name:literal)] [$($doc:literal),+]) => {
        $crate::counters!(@add $self $figures $prefix $field [$kind($name, (concat!($($doc),+).trim_ascii()))] []);
    };
    (@add $self:ident $figures:ident $prefix:ident $field:ident [counter($name:literal, $help:expr)] $doc:tt) => {
        $crate::counters!(@value $self $figures $prefix $field Counter $name $help);
    };
    (@add $self:ident $figures:ident $prefix:ident $field:ident [gauge($name:literal, $help:expr)] $doc:tt) => {
        $crate::counters!(@value $self $figures $prefix $field Gauge $name $help);
    };
    (@add $self:ident $figures:ident $prefix:ident $field:ident [gauge_max($name:literal, $help:expr)] $doc:tt) => {
        $crate::counters!(@value $self $figures $prefix $field GaugeMax $name $help);
    };
    (@value $self:ident $figures:ident $prefix:ident $field:ident $kind:ident $name:literal $help:expr) => {
        let value = $crate::counters::CounterValue::value(&$self.$field);
        $figures.add(($prefix, $name), $help, $crate::counters::FigureKind::$kind, value);
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $struct:ident {
            $( $(#[doc = $doc:literal])+ $field_vis:vis $field:ident: $type:ty $(= $kind:ident($($spec:literal),+))? ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $struct { $( $(#[doc = $doc])+ $field_vis $field: $type, )+ }

        impl $crate::counters::Counters for $struct {
            fn add_to(&self, figures: &mut $crate::counters::Figures, prefix: &'static str) {
                $( $crate::counters!(@add self figures prefix $field [$($kind($($spec),+))?] [$($doc),+]); )+
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    counters! {
        /// Of one class.
        #[derive(Default)]
        struct Class {
            /// Requests
            /// of a class.
            requests: u64 = counter("s"),
        }
    }
    counters! {
        /// Of a core.
        #[derive(Default)]
        struct Core {
            /// Reads.
            read: Class = each("read"),
            /// Writes.
            write: [Class; 2] = each("write"),
            /// Things now.
            open: u32 = gauge("open_things"),
            /// Whether it waits.
            waits: bool = gauge("waiting_cores", "Cores that wait."),
            /// The longest wait, in milliseconds.
            longest: Duration = gauge_max("wait_milliseconds"),
            /// By reason.
            ends: [u64; 2] = counter("ends"),
            /// Not published.
            number: usize,
        }
    }

    fn core(n: u64) -> Core {
        let class = |requests| Class { requests };
        Core {
            read: class(n),
            write: [class(10 * n), class(20 * n)],
            open: n as u32,
            waits: n > 1,
            longest: Duration::from_millis(n),
            ends: [n, 1],
            number: 7,
        }
    }

    #[test]
    fn figures_are_added_up_by_name_and_of_the_longest_the_longest_is_kept() {
        let cores = [core(2), core(1), core(4)];
        assert_eq!(cores.iter().map(|c| c.number).sum::<usize>(), 21);
        let sum = Figures::sum(&cores);
        let values: Vec<_> = sum.iter().map(|f| (&*f.name, f.value)).collect();
        let expected = [("reads", 7), ("writes", 210), ("open_things", 7), ("waiting_cores", 2), ("wait_milliseconds", 4), ("ends", 10)];
        assert_eq!(values, expected);
        assert_eq!((sum.get("ends"), sum.get("number")), (Some(10), None));
    }

    #[test]
    fn the_documentation_of_a_field_is_its_help_text_unless_it_has_one_of_its_own() {
        let none = Figures::sum::<Core>([]);
        let helps: Vec<_> = none.iter().map(|f| (f.help, f.kind, f.value)).collect();
        assert_eq!(helps[0], ("Requests of a class.", FigureKind::Counter, 0));
        assert_eq!(helps[3], ("Cores that wait.", FigureKind::Gauge, 0));
        assert_eq!(helps[4], ("The longest wait, in milliseconds.", FigureKind::GaugeMax, 0));
    }
}
