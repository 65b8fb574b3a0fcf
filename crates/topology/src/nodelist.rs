//! Slurm's compressed lists: hosts such as `h[0-3,7],gpu[01-04]` and counts such as `2(x3),1`.
//!
//! Both come from the environment and are bounded: a short text must not become a long list.

use std::net::IpAddr;

/// The most ranks of a run whose processes a scheduler starts.
pub const MOST_RANKS: u32 = 4096;

/// The longest list that is accepted.
const MOST: usize = MOST_RANKS as usize;

/// The longest host name.
const LONGEST_HOST: usize = 253;

/// The hosts of a list, in its order.
pub fn hosts(text: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for part in split_outside_brackets(text.trim())? {
        expand(part, &mut all)?;
    }
    for host in &all {
        check_host(host).map_err(|problem| format!("`{host}`: {problem}"))?;
    }
    Ok(all)
}

/// Whether `host` can be the name or address of one machine.
pub fn check_host(host: &str) -> Result<(), &'static str> {
    match host.parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() => {
            return Err("give the address of one machine, not the unspecified address");
        }
        Ok(_) => return Ok(()),
        Err(_) => {}
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if host.is_empty() || host.len() > LONGEST_HOST || !host.chars().all(fits) || host.starts_with(['-', '.'])
    {
        return Err("a host name is 1 to 253 letters, digits, `-`, `_` and `.`");
    }
    Ok(())
}

/// Tasks on each host, in the hosts' order.
pub fn counts(text: &str) -> Result<Vec<u32>, String> {
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let bad = || format!("`{part}` is not a count such as 2 or 2(x3)");
        let (count, times) = match part.split_once("(x") {
            Some((count, rest)) => (count, rest.strip_suffix(')').ok_or_else(bad)?),
            None => (part, "1"),
        };
        let count: u32 = digits(count).ok_or_else(bad)?;
        let times: usize = digits(times).ok_or_else(bad)?;
        if times == 0 || all.len() + times > MOST || count as usize > MOST {
            return Err(format!("`{part}`: must be from 1 to {MOST} hosts or tasks"));
        }
        all.extend(std::iter::repeat_n(count, times));
    }
    Ok(all)
}

fn digits<T: std::str::FromStr>(text: &str) -> Option<T> {
    let only_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| only_digits)
}

fn split_outside_brackets(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match (c, inside) {
            ('[', false) => inside = true,
            (']', true) => inside = false,
            ('[', true) | (']', false) => return Err(format!("brackets do not match at `{}`", &text[at..])),
            (',', false) => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err("`]` is missing".to_string());
    }
    parts.push(&text[start..]);
    Ok(parts)
}

/// Adds the hosts of `part`: expands its first bracket and calls itself for the rest.
fn expand(part: &str, all: &mut Vec<String>) -> Result<(), String> {
    let Some((before, rest)) = part.split_once('[') else {
        if part.is_empty() {
            return Err("an empty name between commas".to_string());
        }
        if all.len() >= MOST {
            return Err(format!("more than {MOST} hosts"));
        }
        all.push(part.to_string());
        return Ok(());
    };
    let (ranges, after) = rest.split_once(']').ok_or("`]` is missing")?;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let bad = || format!("`{range}` is not a number or a range such as 0-3");
        let (from, to): (u64, u64) = (digits(first).ok_or_else(bad)?, digits(last).ok_or_else(bad)?);
        if to < from || to - from >= MOST as u64 || first.len() > 18 {
            return Err(format!(
                "`{range}` must count upwards and have at most {MOST} members"
            ));
        }
        for number in from..=to {
            expand(
                &format!("{before}{number:0width$}{after}", width = first.len()),
                all,
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_host_list_is_expanded_as_slurm_means_it() {
        assert_eq!(
            hosts("h[0-3,7],gpu[01-04]").unwrap(),
            ["h0", "h1", "h2", "h3", "h7", "gpu01", "gpu02", "gpu03", "gpu04"]
        );
        assert_eq!(hosts("node7").unwrap(), ["node7"]);
        assert_eq!(
            hosts("r[1-2]n[08-10]x").unwrap(),
            ["r1n08x", "r1n09x", "r1n10x", "r2n08x", "r2n09x", "r2n10x"]
        );
        for text in [
            "",
            "h[0-3",
            "h0-3]",
            "h[[0]]",
            "h[3-0]",
            "h[a-b]",
            "h[]",
            "h0,,h1",
            "h[0-99999999]",
            "a b",
        ] {
            assert!(hosts(text).is_err(), "{text}");
        }
    }

    #[test]
    fn tasks_per_node_say_how_many_ranks_each_host_has() {
        assert_eq!(counts("2(x3),1").unwrap(), [2, 2, 2, 1]);
        assert_eq!(counts("8").unwrap(), [8]);
        for text in [
            "",
            "2(x",
            "2(x3",
            "2(x0)",
            "x",
            "2,,1",
            "1(x99999999)",
            "-1",
            "+1",
        ] {
            assert!(counts(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_long_list_or_a_bad_name(text in "[a-c0-9\\[\\],(x)-]{0,40}") {
            for host in hosts(&text).unwrap_or_default() {
                prop_assert!(super::check_host(&host).is_ok());
            }
            prop_assert!(hosts(&text).unwrap_or_default().len() <= MOST);
            prop_assert!(counts(&text).unwrap_or_default().len() <= MOST);
        }

        #[test]
        fn a_range_lists_each_number_once_at_its_width(from in 0u32..500, length in 0u32..100, width in 1usize..6) {
            let text = format!("h[{from:0width$}-{:0width$}]", from + length);
            let names = hosts(&text).unwrap();
            prop_assert_eq!(names.len() as u32, length + 1);
            prop_assert_eq!(&names[0], &format!("h{from:0width$}"));
            prop_assert_eq!(names.last().unwrap(), &format!("h{:0width$}", from + length));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
            let _ = (hosts(&text), counts(&text));
        }
    }
}
