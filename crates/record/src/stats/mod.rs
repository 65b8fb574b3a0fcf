//! Statistics of times and rates: plain numbers in, plain numbers out, no knowledge of what was measured.
//!
//! About the iterations of one measurement nothing is assumed: times of collectives are skewed and often have two modes, so every statement is
//! about medians and ranks. They follow each other closely and are not independent, so they say how well a median is known, and not
//! what the next measurement will be. That is told by the medians of other measurements (`scale`), whose logarithms are taken to be normal in
//! their crowd (`student`), and by counting those outside of it (`binomial`).
//!
//! No function drops a sample, and none panics: what cannot be said (too few samples, a threshold that is not a number)
//! is `None`, or a probability of 1.

mod binomial;
pub mod fair_hash;
mod gap;
pub mod hashing;
mod histogram;
mod interval;
mod median;
mod multiple;
mod normal;
mod null;
mod ordered;
mod outliers;
mod outlook;
mod poisson;
mod rank_sum;
mod scale;
mod share;
mod sign;
mod student;
mod tail;

pub use binomial::{at_least_of, ever_of, ln_any_probability};
pub use gap::{Gap, widest_gap};
pub use histogram::{Spread, counts, spread};
pub use interval::{MedianInterval, Sorted, interval_of_sorted, is_tight, samples_needed};
pub use median::{Number, median, median_of_sorted, quantile_of_sorted};
pub use multiple::holm;
pub use normal::normal_score;
pub use null::Null;
pub use ordered::Ordered;
pub use outliers::beyond_fences;
pub use outlook::{MOST_FLOWS, Outlook, Shares, flows_for};
pub use poisson::{as_often, expected_of};
pub use rank_sum::rank_sum_above;
pub use scale::{EFFICIENCY, Scale};
pub use share::more_often;
pub use sign::{sign_test, sign_test_above};
pub use student::{student_above, student_score};
pub use tail::{TailBound, busiest_bound};
