//! Did the figures of a part change, and by more than chance explains? The statistics that history and burn-in share.
//!
//! [`online`] asks after every run whether the last few scores began a step or a slope: history, whose runs come one by one.
//! [`wander`] says how much of a reading follows from those before it, [`Forecast`] what that makes one expect.
//! [`Shared`] says what of a reading its siblings show, too.
//! [`offline`] looks for the one step or the slope of a complete series: a burn-in, which is decided at its end. Both measure
//! spread by medians, so that a few wild figures decide nothing; thresholds belong to the caller.

mod baseline;
mod forecast;
pub(crate) mod offline;
pub(crate) mod online;
mod pool;
mod shared;
pub(crate) mod wander;

pub(crate) use baseline::{Baseline, common_level};
pub(crate) use forecast::Forecast;
pub(crate) use online::Fit;
pub(crate) use pool::Pool;
pub(crate) use shared::{Shared, SharedEstimate, Siblings};
pub(crate) use wander::{Variogram, Wander};
