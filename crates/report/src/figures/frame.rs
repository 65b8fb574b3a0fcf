//! The frame of a chart: two scales, their ticks, and where a value lies in pixels.
//!
//! Held true: whatever a value is (not a number, without end, beyond the scale), its place is within the frame.

use std::collections::BTreeSet;

use super::canvas::{Canvas, DrawResult, Point, Stroke, TextLook};
use super::palette::{GRID, INK};
use record::units::{Bytes, Nanos};

/// Most labels of message sizes.
const MOST_SIZES: usize = 11;

/// A scale: its two ends, in steps that are equal differences or equal ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Scale {
    /// From zero to a little more than the highest of these.
    pub(super) fn from_zero(values: impl Iterator<Item = f64>) -> Scale {
        let highest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        Scale {
            low: 0.0,
            high: if highest > 0.0 { highest * 1.08 } else { 1.0 },
            is_log: false,
        }
    }

    /// From one value to another in equal differences.
    pub(super) fn linear(low: f64, high: f64) -> Scale {
        let is_log = false;
        match low.is_finite() && high.is_finite() && high > low {
            true => Scale { low, high, is_log },
            false => Scale {
                low: 0.0,
                high: 1.0,
                is_log,
            },
        }
    }

    /// Around these in equal ratios; what is not above zero has no place there.
    pub(super) fn ratios(values: impl Iterator<Item = f64>) -> Scale {
        let logs = values
            .filter(|value| value.is_finite() && *value > 0.0)
            .map(f64::log2);
        let (low, high) = logs.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), log| {
            (low.min(log), high.max(log))
        });
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let room = ((high - low) * 0.06).max(0.5);
        Scale {
            low: low - room,
            high: high + room,
            is_log: true,
        }
    }

    /// Where a value lies, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        let value = if self.is_log {
            value.max(1e-300).log2()
        } else {
            value
        };
        let part = (value - self.low) / (self.high - self.low);
        if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) }
    }

    /// Round values for this many labels or fewer.
    pub(super) fn ticks(&self, most: usize) -> Vec<f64> {
        if self.is_log {
            return self.round_ratios(most);
        }
        let wanted = (self.high - self.low) / most.max(1) as f64;
        let ten = 10f64.powf(wanted.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .map(|step| step * ten)
            .into_iter()
            .find(|step| *step >= wanted);
        let step = step.unwrap_or(wanted);
        let first = (self.low / step).ceil();
        let many = ((self.high / step).floor() - first).clamp(0.0, 50.0);
        (0..=many as u32)
            .map(|number| (first + f64::from(number)) * step)
            .collect()
    }

    fn round_ratios(&self, most: usize) -> Vec<f64> {
        let (low, high) = (2f64.powf(self.low), 2f64.powf(self.high));
        // Beyond these ends a number is zero or without end, and its logarithm as well.
        let end = |tick: f64| tick.log10().clamp(-320.0, 308.0);
        let decades = end(low).floor() as i32..=end(high).ceil() as i32;
        let fine = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        let choices: [&[f64]; 4] = [&fine, &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
        let within = |steps: &[f64]| -> Vec<f64> {
            let all = decades
                .clone()
                .flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
            all.filter(|tick| *tick >= low && *tick <= high).collect()
        };
        let ticks = choices
            .iter()
            .map(|steps| within(steps))
            .find(|ticks| ticks.len() <= most);
        ticks.unwrap_or_else(|| within(&[1.0]))
    }

    /// Powers of two for this many labels or fewer: what message sizes are.
    pub(super) fn powers_of_two(&self, most: usize) -> Vec<f64> {
        let (low, high) = (self.low.ceil().max(0.0) as u32, self.high.floor().max(0.0) as u32);
        let step = ((high.saturating_sub(low) as usize) / most.max(1) + 1).max(1);
        (low..=high.min(62))
            .step_by(step)
            .map(|power| 2f64.powi(power as i32))
            .collect()
    }
}

/// A chart's frame in pixels with its two scales.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    /// Left edge.
    pub(super) left: i32,
    /// Upper edge.
    pub(super) top: i32,
    /// Right edge.
    pub(super) right: i32,
    /// Lower edge.
    pub(super) bottom: i32,
    /// From left to right.
    pub(super) x: Scale,
    /// From bottom to top.
    pub(super) y: Scale,
}

/// A tick: its value and what is written there.
pub(super) type Tick = (f64, String);

impl Frame {
    /// Where a pair of values lies.
    pub(super) fn at(&self, x: f64, y: f64) -> Point {
        (self.x_of(x), self.y_of(y))
    }

    /// Where a value of the lower scale lies.
    pub(super) fn x_of(&self, x: f64) -> i32 {
        self.left + (self.x.part(x) * f64::from(self.right - self.left)).round() as i32
    }

    /// Where a value of the upright scale lies.
    pub(super) fn y_of(&self, y: f64) -> i32 {
        self.bottom - (self.y.part(y) * f64::from(self.bottom - self.top)).round() as i32
    }

    /// Lines at the ticks with their labels, and what the upright scale measures above it.
    pub(super) fn draw(
        &self,
        canvas: &Canvas<'_>,
        across: &[Tick],
        up: &[Tick],
        measures: &str,
    ) -> DrawResult {
        for (value, label) in up {
            let y = self.y_of(*value);
            canvas.line(&[(self.left, y), (self.right, y)], GRID, Stroke::Solid(1))?;
            canvas.text((self.left - 8, y), label, TextLook::RIGHT)?;
        }
        for (value, label) in across {
            let x = self.x_of(*value);
            canvas.line(&[(x, self.bottom), (x, self.bottom + 4)], INK, Stroke::Solid(1))?;
            canvas.text((x, self.bottom + 14), label, TextLook::MIDDLE)?;
        }
        let axes = [
            (self.left, self.top),
            (self.left, self.bottom),
            (self.right, self.bottom),
        ];
        canvas.line(&axes, INK, Stroke::Solid(1))?;
        canvas.text((self.left, self.top - 12), measures, TextLook::NOTE)
    }

    /// What the lower scale measures, below its labels.
    pub(super) fn name_x_axis(&self, canvas: &Canvas<'_>, measures: &str) -> DrawResult {
        let middle = (self.left + self.right) / 2;
        let note = TextLook::MIDDLE.ink(super::palette::MUTED);
        canvas.text((middle, self.bottom + 32), measures, note)
    }
}

/// Ticks of message sizes: those that were measured where they are few, else powers of two.
pub(super) fn sizes(scale: &Scale, measured: impl Iterator<Item = Bytes>) -> Vec<Tick> {
    let measured: BTreeSet<Bytes> = measured.collect();
    let tick = |size: Bytes| (size.0.max(1) as f64, size.to_string());
    if measured.len() <= MOST_SIZES {
        return measured.into_iter().map(tick).collect();
    }
    let powers = scale.powers_of_two(MOST_SIZES).into_iter();
    powers.map(|size| tick(Bytes(size as u64))).collect()
}

/// Ticks of times in nanoseconds.
pub(super) fn times(scale: &Scale) -> Vec<Tick> {
    let ticks = scale.ticks(8).into_iter();
    ticks.map(|time| (time, brief(time))).collect()
}

/// Ticks of plain numbers.
pub(super) fn numbers(scale: &Scale, most: usize) -> Vec<Tick> {
    let ticks = scale.ticks(most);
    let step = match ticks.as_slice() {
        [first, second, ..] => (second - first).abs(),
        _ => 1.0,
    };
    // As many decimals as the step needs.
    let decimals = (0..6)
        .find(|decimals| {
            let scaled = step * 10f64.powi(*decimals);
            (scaled - scaled.round()).abs() < 1e-6 * scaled
        })
        .unwrap_or(6) as usize;
    let label = |tick: f64| (tick, format!("{tick:.decimals$}"));
    ticks.into_iter().map(label).collect()
}

/// A round time without needless digits: `200 µs`.
fn brief(time: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
    let unit = units.iter().find(|(scale, _)| time >= *scale);
    match unit {
        Some((scale, unit)) => {
            let scaled = (time / scale * 100.0).round() / 100.0;
            format!("{scaled} {unit}")
        }
        None => Nanos(time.max(0.0) as u64).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(x: Scale, y: Scale) -> Frame {
        Frame {
            left: 50,
            top: 10,
            right: 450,
            bottom: 210,
            x,
            y,
        }
    }

    proptest! {
        #[test]
        fn no_value_however_strange_lies_outside_of_its_chart(
            values in proptest::collection::vec(proptest::num::f64::ANY, 0..8),
            at in proptest::num::f64::ANY,
        ) {
            for x in [Scale::from_zero(values.iter().copied()), Scale::ratios(values.iter().copied())] {
                let frame = frame(x, x);
                let (across, up) = frame.at(at, at);
                prop_assert!((50..=450).contains(&across) && (10..=210).contains(&up));
                prop_assert!(x.ticks(8).len() <= 700, "{:?}", x);
            }
        }
    }

    #[test]
    fn ticks_are_round_and_few() {
        let labels =
            |ticks: Vec<Tick>| -> Vec<String> { ticks.into_iter().map(|(_, label)| label).collect() };
        let rates = Scale::from_zero([47.3].into_iter());
        assert_eq!(labels(numbers(&rates, 6)), ["0", "10", "20", "30", "40", "50"]);
        let slow = Scale::from_zero([0.83].into_iter());
        assert_eq!(labels(numbers(&slow, 5)), ["0.0", "0.2", "0.4", "0.6", "0.8"]);
        let latencies = Scale::ratios([2_000.0, 90_000.0].into_iter());
        assert_eq!(
            labels(times(&latencies)),
            ["2 us", "5 us", "10 us", "20 us", "50 us", "100 us"]
        );
        let messages = Scale::ratios([1024.0, 16_777_216.0].into_iter());
        let few = [1024, 3000, 16_777_216].map(Bytes);
        assert_eq!(
            labels(sizes(&messages, few.into_iter())),
            ["1 KiB", "2.9 KiB", "16 MiB"]
        );
        let many = labels(sizes(
            &messages,
            (0..20).map(|step| Bytes(1024 << (step % 15) | step)),
        ));
        assert!(
            many.len() <= 11 && many.contains(&"1 KiB".to_string()),
            "{many:?}"
        );
    }
}
