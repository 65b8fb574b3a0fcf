//! Clocks, temperature and power of GPUs over the run, one line per GPU, with the limits they have.
//!
//! Readable without colour: every line has its own marker; an exclamation mark is a GPU whose clocks were throttled by temperature or power. Where there are
//! more GPUs than lines, those in trouble and those with the lowest clocks are drawn and the band is where all of them lie.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use super::canvas::{Canvas, DrawResult, Stroke, TextLook, clip, drawing};
use super::frame::{self, Frame, Scale};
use super::palette::{INK, LINES, PALE};
use crate::figure::{Figure, FigureKind};
use record::text::counted;
use record::{Event, Extremes, GpuReading, GpuSummary, Judgement, Recorded};

/// Most lines of a panel.
const MOST_LINES: usize = 8;
/// Most moments drawn; beyond, neighbours are one.
const MOST_MOMENTS: usize = 120;
const WIDTH: i32 = 960;
const PANEL: i32 = 130;

/// The picture of sensors.
pub(super) struct Gpus;

/// What is drawn of every reading.
#[derive(Clone, Copy)]
struct Sensor {
    name: &'static str,
    of: fn(&GpuReading) -> Option<Extremes>,
    limit: fn(&GpuSummary) -> Option<u32>,
    /// Whether the lowest of a moment matters, and not the highest.
    is_low: bool,
    /// How many of the recorded unit are one of the drawn.
    per: f64,
    unit: &'static str,
}

const SENSORS: [Sensor; 3] = [
    Sensor {
        name: "SM clock, lowest while busy (MHz)",
        of: |reading| reading.during.sm_mhz,
        limit: |gpu| gpu.sm_mhz_limit,
        is_low: true,
        per: 1.0,
        unit: "MHz",
    },
    Sensor {
        name: "temperature, highest (degrees Celsius)",
        of: |reading| Extremes::with(reading.during.celsius, reading.after.celsius),
        limit: |gpu| gpu.celsius_limit,
        is_low: false,
        per: 1.0,
        unit: "C",
    },
    Sensor {
        name: "power, highest (W)",
        of: |reading| Extremes::with(reading.during.milliwatts, reading.after.milliwatts),
        limit: |gpu| gpu.milliwatts_limit,
        is_low: false,
        per: 1000.0,
        unit: "W",
    },
];

/// Values by moment.
type Values = BTreeMap<usize, f64>;

impl FigureKind for Gpus {
    fn figures(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<Vec<Figure>> {
        let watched = Watched::of(recorded, judgement);
        if watched.panels.is_empty() {
            return Ok(Vec::new());
        }
        let title = "GPUs over the run: clocks, temperature, power".to_string();
        Ok(vec![Figure {
            id: "gpus".to_string(),
            svg: watched.drawn(&title)?,
            caption: watched.caption(),
            alternative: watched.in_words(),
            title,
        }])
    }
}

/// One sensor with a line per GPU that is drawn, and where all GPUs lie.
struct Panel {
    sensor: Sensor,
    lines: Vec<Values>,
    band: BTreeMap<usize, (f64, f64)>,
    limit: Option<f64>,
}

/// Everything that is drawn.
struct Watched<'a> {
    gpus: Vec<&'a GpuSummary>,
    /// Those in trouble that have no line.
    hidden: Vec<&'a GpuSummary>,
    all: usize,
    moments: usize,
    panels: Vec<Panel>,
}

impl<'a> Watched<'a> {
    fn of(recorded: &Recorded, judgement: &'a Judgement) -> Watched<'a> {
        let readings: Vec<&GpuReading> = recorded
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Gpu(reading) => Some(reading.as_ref()),
                _ => None,
            })
            .collect();
        let moments = moments(&readings);
        let mut gpus: Vec<&GpuSummary> = judgement.gpus.iter().collect();
        gpus.sort_by_key(|gpu| (!in_trouble(gpu), gpu.sm_mhz.map_or(u32::MAX, |clock| clock.least)));
        let all = gpus.len();
        let mut hidden = gpus.split_off(all.min(MOST_LINES));
        hidden.retain(|gpu| in_trouble(gpu));
        let number: HashMap<&str, usize> = (0..)
            .zip(&gpus)
            .map(|(number, gpu)| (gpu.uuid.as_str(), number))
            .collect();
        let panel = |sensor: Sensor| {
            let mut panel = Panel {
                sensor,
                lines: vec![Values::new(); gpus.len()],
                band: BTreeMap::new(),
                limit: gpus
                    .first()
                    .and_then(|gpu| (sensor.limit)(gpu))
                    .map(|limit| f64::from(limit) / sensor.per),
            };
            for reading in &readings {
                let (Some(seen), Some(at)) =
                    ((sensor.of)(reading), moments.get(&(reading.cell, reading.round)))
                else {
                    continue;
                };
                let seen = if sensor.is_low { seen.least } else { seen.most };
                panel.add(
                    *at,
                    f64::from(seen) / sensor.per,
                    number.get(reading.uuid.as_str()).copied(),
                );
            }
            (!panel.band.is_empty()).then_some(panel)
        };
        Watched {
            panels: SENSORS.into_iter().filter_map(panel).collect(),
            moments: moments.values().max().map_or(0, |last| last + 1),
            gpus,
            hidden,
            all,
        }
    }

    fn drawn(&self, title: &str) -> io::Result<String> {
        let legend_at = 70 + (PANEL + 62) * self.panels.len() as i32;
        let height = legend_at + 20 * (self.gpus.len() as i32 + 2) / 2 + 20;
        drawing((WIDTH as u32, height as u32), title, |canvas| {
            for (number, panel) in self.panels.iter().enumerate() {
                let top = 62 + (PANEL + 62) * number as i32;
                let values = panel.band.values().map(|(_, most)| *most).chain(panel.limit);
                let frame = Frame {
                    left: 64,
                    top,
                    right: WIDTH - 24,
                    bottom: top + PANEL,
                    x: Scale::linear(-0.5, self.moments as f64 - 0.5),
                    y: Scale::from_zero(values),
                };
                let across = frame::numbers(&Scale::linear(0.0, self.moments.max(2) as f64 - 1.0), 10);
                let whole = across.into_iter().filter(|(value, _)| value.fract() == 0.0);
                let across: Vec<_> = whole.map(|(value, _)| (value, format!("{value:.0}"))).collect();
                frame.draw(canvas, &across, &frame::numbers(&frame.y, 4), panel.sensor.name)?;
                panel.draw(canvas, &frame, self.all > self.gpus.len())?;
            }
            canvas.text(
                (WIDTH / 2, legend_at - 26),
                "measurements in the order of the run",
                TextLook::MIDDLE.ink(super::palette::MUTED),
            )?;
            for (number, gpu) in self.gpus.iter().enumerate() {
                let (x, y) = (
                    24 + (number % 2) as i32 * 468,
                    legend_at + 20 * (number / 2) as i32,
                );
                canvas.marker((x + 10, y), number, LINES[number])?;
                let mark = if in_trouble(gpu) { "! " } else { "" };
                canvas.text((x + 28, y), &format!("{mark}{}", name(gpu)), TextLook::LEFT)?;
            }
            let band = if self.all > self.gpus.len() {
                "; band: range of all GPUs"
            } else {
                ""
            };
            let note = format!("dashed: current limit; !: clocks throttled by temperature or power{band}");
            canvas.text((24, height - 16), &note, TextLook::NOTE)
        })
    }

    fn caption(&self) -> String {
        let held = self.gpus.iter().filter(|gpu| in_trouble(gpu)).count() + self.hidden.len();
        let held = match held {
            0 => "No clock was throttled by temperature or power, as far as it could be read.".to_string(),
            many => format!(
                "Clocks of {} were throttled by temperature or power.",
                counted(many, "GPU")
            ),
        };
        let drawn = match self.all - self.gpus.len() {
            0 => String::new(),
            more => format!(
                " {more} more GPUs are only in the band; throttled GPUs and those with the lowest clocks have lines."
            ),
        };
        format!("Sensor readings while cells ran, in the order of the run. {held}{drawn}")
    }

    fn in_words(&self) -> String {
        let gpu = |gpu: &&GpuSummary| {
            let of = |what: &str, seen: Option<Extremes>, limit: Option<u32>, per: u32, unit: &str| {
                let seen = seen?;
                let limit = limit.map_or_else(String::new, |limit| format!(" of {}", limit / per));
                Some(format!(
                    "{what} {} to {}{limit} {unit}",
                    seen.least / per,
                    seen.most / per
                ))
            };
            let mut parts: Vec<String> = [
                of("clock", gpu.sm_mhz, gpu.sm_mhz_limit, 1, "MHz"),
                of("temperature", gpu.celsius, gpu.celsius_limit, 1, "C"),
                of("power", gpu.milliwatts, gpu.milliwatts_limit, 1000, "W"),
            ]
            .into_iter()
            .flatten()
            .collect();
            parts.extend(gpu.limited_by.iter().map(|(limit, held)| {
                format!(
                    "throttled by {} in {}",
                    limit.words(),
                    counted(held.cells as usize, "cell")
                )
            }));
            format!("{} ({}): {}", name(gpu), clip(&gpu.uuid, 60), parts.join(", "))
        };
        let mut words: Vec<String> = self.gpus.iter().chain(&self.hidden).map(gpu).collect();
        if self.all > self.gpus.len() {
            let all = self.panels.iter().map(|panel| {
                let (least, most) = panel.range();
                format!("{least:.0} to {most:.0} {}", panel.sensor.unit)
            });
            let all: Vec<String> = all.collect();
            words.push(format!("all {}: {}", counted(self.all, "GPU"), all.join(", ")));
        }
        words.join("; ")
    }
}

impl Panel {
    fn add(&mut self, at: usize, value: f64, line: Option<usize>) {
        let (low, high) = self.band.entry(at).or_insert((value, value));
        (*low, *high) = (low.min(value), high.max(value));
        if let Some(line) = line {
            let known = self.lines[line].entry(at).or_insert(value);
            *known = match self.sensor.is_low {
                true => known.min(value),
                false => known.max(value),
            };
        }
    }

    fn range(&self) -> (f64, f64) {
        let all = self.band.values();
        all.fold((f64::INFINITY, 0.0), |(low, high), (least, most)| {
            (f64::min(low, *least), f64::max(high, *most))
        })
    }

    fn draw(&self, canvas: &Canvas<'_>, frame: &Frame, has_band: bool) -> DrawResult {
        if has_band {
            let lower = self.band.iter().map(|(at, (low, _))| frame.at(*at as f64, *low));
            let upper = self
                .band
                .iter()
                .rev()
                .map(|(at, (_, high))| frame.at(*at as f64, *high));
            let around: Vec<_> = lower.chain(upper).collect();
            canvas.polygon(&around, PALE)?;
        }
        if let Some(limit) = self.limit {
            let y = frame.y_of(limit);
            canvas.line(&[(frame.left, y), (frame.right, y)], INK, Stroke::Dashed(1))?;
        }
        for (number, line) in self.lines.iter().enumerate() {
            let places: Vec<_> = line
                .iter()
                .map(|(at, value)| frame.at(*at as f64, *value))
                .collect();
            canvas.line(&places, LINES[number], Stroke::Solid(1))?;
            // Enough markers to tell lines apart.
            let every = places.len().div_ceil(20).max(1);
            for place in places.iter().step_by(every) {
                canvas.marker(*place, number, LINES[number])?;
            }
        }
        Ok(())
    }
}

/// Which moment each measurement is, in the order of the run.
fn moments(readings: &[&GpuReading]) -> HashMap<(u32, u16), usize> {
    let mut order: Vec<(u32, u16)> = Vec::new();
    let mut seen = BTreeSet::new();
    for reading in readings {
        let key = (reading.cell, reading.round);
        if seen.insert(key) {
            order.push(key);
        }
    }
    let together = order.len().div_ceil(MOST_MOMENTS).max(1);
    order
        .into_iter()
        .enumerate()
        .map(|(number, key)| (key, number / together))
        .collect()
}

fn in_trouble(gpu: &GpuSummary) -> bool {
    gpu.limited_by.keys().any(|limit| limit.is_trouble())
}

/// `node07, rank 12`.
fn name(gpu: &GpuSummary) -> String {
    let host = gpu.hosts.first().map_or("", String::as_str);
    let ranks: Vec<String> = gpu.ranks.iter().take(3).map(u32::to_string).collect();
    let more = if gpu.ranks.len() > 3 { " ..." } else { "" };
    clip(&format!("{}, rank {}{more}", clip(host, 24), ranks.join(" ")), 48)
}
