//! Size sweeps with the meaning nccl-tests gave them: start at `from`, multiply by `factor` or add `step`, stop beyond `to`.

use record::units::Bytes;

/// The most sizes in one sweep; more are a mistake, such as a step in bytes instead of megabytes.
pub const MOST_SIZES: usize = 10_000;

/// The largest size; no device has more memory.
pub const LARGEST_SIZE: Bytes = Bytes(1 << 40);

/// How a sweep gets from one size to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Multiply.
    Factor(u64),
    /// Add.
    Add(Bytes),
}

/// A sweep that is known to end, and to hold at least one and at most [`MOST_SIZES`] sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    from: Bytes,
    to: Bytes,
    step: Step,
}

/// Why a sweep is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    /// It would be empty.
    #[error("the sweep is empty: it starts at {from}, beyond its end {to}")]
    Empty {
        /// Start.
        from: Bytes,
        /// End.
        to: Bytes,
    },
    /// It would never end.
    #[error("the sweep never ends: {0}")]
    Endless(&'static str),
    /// It holds too many sizes.
    #[error("the sweep has {count} sizes, more than {MOST_SIZES}; use a larger step or a factor")]
    TooMany {
        /// How many.
        count: u64,
    },
    /// It goes beyond what any device holds.
    #[error("the sweep ends at {to}; sizes go up to {LARGEST_SIZE}")]
    TooLarge {
        /// End.
        to: Bytes,
    },
}

impl Sweep {
    /// A sweep from `from` up to and including `to` where the steps reach it.
    pub fn new(from: Bytes, to: Bytes, step: Step) -> Result<Sweep, SweepError> {
        if from > to {
            return Err(SweepError::Empty { from, to });
        }
        if to > LARGEST_SIZE {
            return Err(SweepError::TooLarge { to });
        }
        match step {
            Step::Factor(0 | 1) => return Err(SweepError::Endless("the factor must be 2 or more")),
            Step::Factor(_) if from == Bytes(0) => {
                return Err(SweepError::Endless(
                    "0 times any factor is 0; start at 1 or use a step",
                ));
            }
            Step::Add(Bytes(0)) => return Err(SweepError::Endless("the step must be 1 or more")),
            Step::Add(Bytes(step)) => {
                let count = (to.0 - from.0) / step + 1;
                if count > MOST_SIZES as u64 {
                    return Err(SweepError::TooMany { count });
                }
            }
            Step::Factor(_) => {}
        }
        Ok(Sweep { from, to, step })
    }

    /// The sizes, smallest first.
    pub fn sizes(&self) -> Vec<Bytes> {
        std::iter::successors(Some(self.from), |size| {
            match self.step {
                Step::Factor(factor) => size.0.checked_mul(factor),
                Step::Add(Bytes(step)) => size.0.checked_add(step),
            }
            .map(Bytes)
        })
        .take_while(|size| *size <= self.to)
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(from: u64, to: u64, step: Step) -> Vec<u64> {
        let sweep = Sweep::new(Bytes(from), Bytes(to), step).unwrap();
        sweep.sizes().iter().map(|size| size.0).collect()
    }

    #[test]
    fn a_sweep_gives_the_sizes_nccl_tests_would() {
        assert_eq!(sizes(8, 64, Step::Factor(2)), [8, 16, 32, 64]);
        assert_eq!(sizes(8, 100, Step::Factor(8)), [8, 64]);
        assert_eq!(sizes(0, 20, Step::Add(Bytes(8))), [0, 8, 16]);
        assert_eq!(sizes(5, 5, Step::Add(Bytes(1))), [5]);
    }

    #[test]
    fn a_sweep_that_would_hang_or_flood_the_run_is_refused_with_the_reason() {
        let refused = |from, to, step| Sweep::new(Bytes(from), Bytes(to), step).unwrap_err().to_string();
        assert!(refused(16, 8, Step::Factor(2)).contains("empty"));
        assert!(refused(8, 16, Step::Factor(1)).contains("2 or more"));
        assert!(refused(0, 16, Step::Factor(2)).contains("start at 1"));
        assert!(refused(0, 16, Step::Add(Bytes(0))).contains("1 or more"));
        assert!(refused(0, 1 << 30, Step::Add(Bytes(1))).contains("1073741825 sizes"));
        assert!(refused(8, 1 << 50, Step::Factor(2)).contains("1 TiB"));
    }
}
