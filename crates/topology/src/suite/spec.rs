//! Expected rates with provenance: the tables in `suites/specs/`, built into the binary.
//!
//! A row that lacks a field is refused, and every figure says whether it was published or computed.

use strum::{Display, EnumString, VariantNames};

use super::error::SuiteError;
use super::reader::{Section, Source};
use super::suggest::suggestion;
use record::units::Rate;
use record::{Algorithm, SpecRow};

/// The tables, by the path errors name them with.
const TABLES: &[(&str, &str)] = &[
    (
        "suites/specs/nvlink.toml",
        include_str!("../../../../suites/specs/nvlink.toml"),
    ),
    (
        "suites/specs/infiniband.toml",
        include_str!("../../../../suites/specs/infiniband.toml"),
    ),
    (
        "suites/specs/ethernet.toml",
        include_str!("../../../../suites/specs/ethernet.toml"),
    ),
];

const TABLE_KEYS: &[&str] = &["link_layer", "row"];
const ROW_KEYS: &[&str] = &[
    "id",
    "title",
    "rate",
    "port_rate",
    "tolerance",
    "algorithm",
    "from_size",
    "match_speed_mbit",
    "scale",
    "basis",
    "source",
];

/// What kind of link a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum LinkLayer {
    /// Between GPUs of one node.
    Nvlink,
    /// InfiniBand.
    Infiniband,
    /// Ethernet.
    Ethernet,
}

/// Where a figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Basis {
    /// Somebody measured and published it.
    Published,
    /// It is arithmetic.
    Computed,
}

/// A row of a table, with what is needed to find it.
#[derive(Debug, Clone, PartialEq)]
pub struct SpecEntry {
    /// The row as it is recorded; its source begins with the basis.
    pub row: SpecRow,
    /// Theoretical rate of the link, one direction.
    pub port_rate: Rate,
    /// Where the figure comes from.
    pub basis: Basis,
    /// What kind of link it is about.
    pub link_layer: LinkLayer,
    /// Link speed by which `auto` finds it.
    pub match_speed_mbit: Option<u64>,
}

/// All rows of all built-in tables.
pub fn entries() -> Result<Vec<SpecEntry>, SuiteError> {
    let mut entries = Vec::new();
    for (origin, text) in TABLES {
        read_table(Source { origin, text }, &mut entries)?;
    }
    Ok(entries)
}

/// The row with that id, or a sentence saying that there is none and which one may have been meant.
pub fn by_id<'e>(entries: &'e [SpecEntry], id: &str) -> Result<&'e SpecRow, String> {
    let found = entries.iter().find(|entry| entry.row.id == id);
    found.map(|entry| &entry.row).ok_or_else(|| {
        let ids: Vec<&str> = entries.iter().map(|entry| entry.row.id.as_str()).collect();
        format!("no row `{id}` in suites/specs; {}", suggestion(id, &ids))
    })
}

/// The row for a link speed, if there is one.
pub fn by_speed(entries: &[SpecEntry], link_layer: LinkLayer, speed_mbit: u64) -> Option<&SpecRow> {
    entries
        .iter()
        .find(|entry| entry.link_layer == link_layer && entry.match_speed_mbit == Some(speed_mbit))
        .map(|entry| &entry.row)
}

fn read_table(source: Source<'_>, entries: &mut Vec<SpecEntry>) -> Result<(), SuiteError> {
    let root = source.parse()?;
    let table = Section::root(source, "a table of expected rates", &root);
    table.refuse_unknown_keys(TABLE_KEYS)?;
    let link_layer = table.require("link_layer")?.word()?;
    for item in table
        .require("row")?
        .list("a list of tables, each written [[row]]")?
    {
        let entry = read_row(&item.must_be_section("[[row]]")?, link_layer)?;
        if entries.iter().any(|other| other.row.id == entry.row.id) {
            return Err(item.error(format!("two rows have the id `{}`", entry.row.id)));
        }
        entries.push(entry);
    }
    Ok(())
}

fn read_row(section: &Section<'_>, link_layer: LinkLayer) -> Result<SpecEntry, SuiteError> {
    section.refuse_unknown_keys(ROW_KEYS)?;
    let text = |key: &str| {
        let text = section.require(key)?.filled_text()?;
        Ok::<_, SuiteError>(text.to_string())
    };
    let rate: Rate = section.require("rate")?.quantity()?;
    let port_rate: Rate = section.require("port_rate")?.quantity()?;
    if !(rate.0 > 0.0 && rate <= port_rate) {
        let item = section.require("rate")?;
        return Err(item.error(format!(
            "expects {rate}, but the link carries at most {port_rate}"
        )));
    }
    let algorithm = section.require("algorithm")?;
    let basis: Basis = section.require("basis")?.word()?;
    Ok(SpecEntry {
        row: SpecRow {
            id: text("id")?,
            title: text("title")?,
            rate,
            tolerance: section.require("tolerance")?.share(0.0, 0.5)?,
            algorithm: match algorithm.text()? {
                "any" => None,
                _ => Some(algorithm.word::<Algorithm>()?),
            },
            from_size: section.require("from_size")?.quantity()?,
            scale: text("scale")?,
            source: format!("{basis}: {}", text("source")?),
            line_mbit: None,
        },
        port_rate,
        basis,
        link_layer,
        match_speed_mbit: match section.get("match_speed_mbit") {
            Some(item) => Some(item.whole(1..=u64::MAX)?),
            None => None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::units::Bytes;
    use std::collections::HashSet;

    #[test]
    fn every_expected_rate_has_its_provenance_and_asks_for_no_more_than_the_link_can_carry() {
        let entries = entries().unwrap();
        let mut ids = HashSet::new();
        for SpecEntry {
            row,
            port_rate,
            basis,
            ..
        } in &entries
        {
            assert!(ids.insert(&row.id), "{} is there twice", row.id);
            assert!(
                row.rate.0 > 0.5 * port_rate.0 && row.rate <= *port_rate,
                "{}",
                row.id
            );
            assert!(row.tolerance > 0.0 && row.tolerance <= 0.1, "{}", row.id);
            assert!(row.from_size >= Bytes(1 << 20), "{}", row.id);
            assert!(!row.scale.is_empty() && !row.title.is_empty(), "{}", row.id);
            assert!(row.source.starts_with(&format!("{basis}: ")), "{}", row.source);
            match basis {
                Basis::Published => assert!(row.source.len() > 40, "{}: published by whom?", row.id),
                Basis::Computed => assert!(row.source.contains(" x "), "{}: computed how?", row.id),
            }
        }
    }

    #[test]
    fn the_links_an_operator_has_today_are_in_the_tables() {
        let entries = entries().unwrap();
        for id in [
            "nvlink3-ring",
            "nvlink4-ring",
            "nvlink5-ring",
            "hdr200",
            "ndr400",
            "xdr800",
        ] {
            assert!(by_id(&entries, id).is_ok(), "{id}");
        }
        for speed in [100_000, 200_000, 400_000, 800_000] {
            let row = by_speed(&entries, LinkLayer::Ethernet, speed).unwrap();
            assert_eq!(row.id, format!("ethernet{}", speed / 1000));
        }
        assert_eq!(by_speed(&entries, LinkLayer::Ethernet, 10_000), None);
    }

    #[test]
    fn auto_finds_one_row_per_link_speed_so_that_its_choice_is_no_accident() {
        let mut seen = HashSet::new();
        for entry in entries().unwrap() {
            if let Some(speed) = entry.match_speed_mbit {
                assert!(
                    seen.insert((entry.link_layer.to_string(), speed)),
                    "{}",
                    entry.row.id
                );
            }
        }
    }

    #[test]
    fn a_row_id_with_a_slip_points_at_the_row_that_was_meant() {
        let error = by_id(&entries().unwrap(), "ndr40").unwrap_err();
        assert_eq!(error, "no row `ndr40` in suites/specs; did you mean `ndr400`?");
    }

    #[test]
    fn a_row_that_expects_more_than_the_port_rate_is_refused() {
        let text = TABLES[2].1.replace("\"46 GB/s\"", "\"51 GB/s\"");
        let source = Source {
            origin: "t.toml",
            text: &text,
        };
        let error = read_table(source, &mut Vec::new()).unwrap_err().to_string();
        assert!(
            error.contains("expects 51.00 GB/s, but the link carries at most 50.00 GB/s"),
            "{error}"
        );
    }

    #[test]
    fn a_row_without_a_source_is_refused() {
        let text = TABLES[1].1.replace("source =", "# source =");
        let source = Source {
            origin: "t.toml",
            text: &text,
        };
        let error = read_table(source, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("[[row]] needs `source`"), "{error}");
    }
}
