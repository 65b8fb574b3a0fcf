//! Floating-point numbers with a total order, for heaps and maps.

use std::cmp::Ordering;

/// A number ordered by [`f64::total_cmp`].
#[derive(Debug, Clone, Copy)]
pub struct Ordered(pub f64);

impl PartialEq for Ordered {
    fn eq(&self, other: &Ordered) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Ordered) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Ordered) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}
