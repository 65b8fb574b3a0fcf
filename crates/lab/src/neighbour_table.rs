//! Room for the labs' neighbours: the kernel keeps the link-layer addresses of all namespaces in one table.
//!
//! Where the table is full, packets to neighbours that are not in it are dropped, for seconds, and flows between healthy hosts go silent: ten labs
//! at a time did that with the usual limit of 1,024 entries. A higher limit costs nothing until entries are made, so it stays as it is when a lab
//! is taken down.

use std::path::Path;

use super::{LabError, Shape, Wiring};

/// Where the machine's own namespace shows the limits; others do not show them.
const LIMITS: &str = "/proc/sys/net/ipv4/neigh/default";
/// Above the first of these old entries are removed within seconds, above the second no further ones are made.
const ENOUGH: [(&str, u32); 2] = [("gc_thresh2", 32_768), ("gc_thresh3", 65_536)];

/// Raises the table's limits for many labs. Where that cannot be done, a lab that fits in by itself may be built all the same.
pub fn make_room(wiring: &Wiring) -> Result<(), LabError> {
    raise(
        Path::new(LIMITS),
        most_entries(&wiring.shape, wiring.cables.len()),
    )
}

/// How many neighbours a lab's namespaces can have: both ends of every cable, and all hosts and the management switch each other.
fn most_entries(shape: &Shape, cables: usize) -> u32 {
    let hosts = u32::from(shape.hosts);
    2 * cables as u32 + hosts * (hosts + 1)
}

fn raise(limits: &Path, needed: u32) -> Result<(), LabError> {
    for (name, enough) in ENOUGH {
        let path = limits.join(name);
        let Some(limit) = std::fs::read_to_string(&path)
            .ok()
            .and_then(|text| text.trim().parse::<u32>().ok())
        else {
            continue;
        };
        if limit >= enough {
            continue;
        }
        match std::fs::write(&path, enough.to_string()) {
            Err(error) if limit < needed => {
                let what = format!(
                    "{} is {limit}, this lab may have {needed} neighbours, and it cannot be raised",
                    path.display()
                );
                return Err(LabError::system(what)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_are_too_low_are_raised_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let limit = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join("gc_thresh2"), "512\n").unwrap();
        std::fs::write(folder.path().join("gc_thresh3"), "100000\n").unwrap();
        raise(folder.path(), 10).unwrap();
        assert_eq!(
            (limit("gc_thresh2").as_str(), limit("gc_thresh3").as_str()),
            ("32768", "100000\n")
        );
    }

    #[test]
    fn where_limits_cannot_be_read_a_lab_is_built_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        raise(folder.path(), 1_000_000).unwrap();
    }

    #[test]
    fn a_large_lab_needs_more_than_a_kernel_has() {
        let shape = Shape::parse("128x8").unwrap();
        let cables = Wiring::new(&shape).cables.len();
        assert!(most_entries(&shape, cables) > 1024);
    }
}
