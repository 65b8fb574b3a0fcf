//! Counters of ports that moved, for people.

use std::fmt::{Error, Write};

use super::escape::markdown as inert;
use super::table::{Entry, Table, Tone, figure, text};
use record::text::counted;
use record::{CounterReport, Judgement, MovedCounter};

/// The section of `report.md`; how many counters moved.
pub(super) fn section(out: &mut String, judgement: &Judgement, most: usize) -> Result<usize, Error> {
    let Some(counters) = &judgement.counters else {
        return Ok(0);
    };
    writeln!(out, "## Port counters that changed\n")?;
    if let Some(trouble) = &counters.trouble {
        writeln!(
            out,
            "The rules of this run could not be used: {}.\n",
            inert(trouble)
        )?;
    }
    writeln!(out, "{}\n", about(counters))?;
    let rows = counters.moved.len() + counters.more as usize;
    if rows == 0 {
        writeln!(out, "None.\n")?;
    } else {
        let shown = counters.moved.len().min(most);
        table(&counters.moved[..shown]).markdown(out)?;
        writeln!(out)?;
    }
    unread(out, counters, most)?;
    Ok(rows)
}

/// What the table shows, in a sentence or two.
pub(super) fn about(counters: &CounterReport) -> String {
    format!(
        "Read before and after every cell, at {}. Worst first, without traffic counters. A counter that breaks no rule accuses no part.",
        counted(counters.ports as usize, "rail end")
    )
}

/// These counters, and the rules that they break.
pub(super) fn table(moved: &[MovedCounter]) -> Table {
    let columns = [
        text("host"),
        text("rail"),
        text("counter"),
        text("category"),
        figure("change"),
        figure("observed for"),
        text("rule"),
        text("measured"),
        text("accepted"),
    ];
    let mut table = Table::new("Port counters that changed", columns);
    for counter in moved {
        table.row(row(counter));
    }
    table
}

fn row(counter: &MovedCounter) -> Vec<Entry> {
    let or_dash = |text: &Option<String>| Entry::from(text.as_deref().unwrap_or("-"));
    let rule = match (&counter.rule, &counter.severity) {
        (Some(rule), Some(severity)) => Entry::from(format!("{rule} ({severity})")).toned(Tone::Bad),
        _ => Entry::ours("-"),
    };
    let watched = Some(counter.watched_ns).filter(|watched| watched.0 > 0);
    let at_least = if counter.or_more { "at least " } else { "" };
    vec![
        Entry::from(&counter.host),
        Entry::from(&counter.rail),
        Entry::from(&counter.name),
        or_dash(&counter.kind),
        Entry::ours(format!("{at_least}{}", counter.moved)),
        Entry::or_dash(watched),
        rule,
        or_dash(&counter.measured),
        or_dash(&counter.bound),
    ]
}

fn unread(out: &mut String, counters: &CounterReport, most: usize) -> Result<(), Error> {
    if counters.unread.is_empty() {
        return Ok(());
    }
    writeln!(out, "Not read, values unknown:\n")?;
    for unread in counters.unread.iter().take(most) {
        let why = unread.why.as_deref().unwrap_or("no such counter");
        writeln!(
            out,
            "- {} at {} of {}: {}",
            inert(&unread.name),
            unread.ports,
            counters.ports,
            inert(why)
        )?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use judge::findings::fixture::Fixture;
    use judge::findings::judge;
    use record::{CounterDelta, CounterState, Event, Recorded};

    fn counter(recorded: &mut Recorded, rank: u32, name: &str, moved: Option<u64>, state: CounterState) {
        recorded.events.push(Event::Counter(CounterDelta {
            rank,
            rail: "rail0".into(),
            name: name.into(),
            before: moved.map(|_| 0),
            after: moved,
            state,
            ..CounterDelta::default()
        }));
    }

    fn text(recorded: &Recorded, most: usize) -> (String, usize) {
        let mut out = String::new();
        let rows = super::section(&mut out, &judge(recorded), most).unwrap();
        (out, rows)
    }

    #[test]
    fn the_worst_counter_stands_first_and_what_was_not_read_is_said() {
        let mut recorded = Fixture::rails(2).recorded();
        counter(
            &mut recorded,
            1,
            "rx_prio3_pause",
            Some(9000),
            CounterState::Present,
        );
        counter(
            &mut recorded,
            2,
            "local_link_integrity_errors",
            Some(1),
            CounterState::Present,
        );
        counter(&mut recorded, 2, "rx_bytes", Some(1 << 40), CounterState::Present);
        counter(&mut recorded, 2, "pcie/*", None, CounterState::Absent);
        counter(
            &mut recorded,
            1,
            "symbol_error",
            None,
            CounterState::Unreadable("permission denied".into()),
        );
        let (page, rows) = text(&recorded, 500);
        assert_eq!(rows, 2, "{page}");
        let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part}: {page}"));
        assert!(
            at("local\\_link\\_integrity\\_errors") < at("rx\\_prio3\\_pause"),
            "{page}"
        );
        assert!(
            page.contains("link-integrity-errors (bad)") && !page.contains("rx\\_bytes"),
            "{page}"
        );
        at("- pcie/\\* at 1 of 2: no such counter");
        at("- symbol\\_error at 1 of 2: permission denied");
        assert_eq!(
            text(&recorded, 1).0.matches("| node0").count(),
            1,
            "rows are bounded"
        );
        assert_eq!(text(&Fixture::rails(2).recorded(), 500), (String::new(), 0));
    }

    #[test]
    fn a_hostile_name_cannot_leave_its_cell() {
        let mut recorded = Fixture::rails(2).recorded();
        recorded.run.ranks[1].host = "<img src=x> | \u{1b}[2J\n# node".into();
        counter(
            &mut recorded,
            1,
            "a | b\u{202e}<b>\n",
            Some(7),
            CounterState::Present,
        );
        counter(
            &mut recorded,
            1,
            "symbol_error",
            None,
            CounterState::Unreadable("[x](http://y)\n".into()),
        );
        let (page, _) = text(&recorded, 500);
        for live in ["<img", "<b>", "\u{1b}", "\u{202e}", "http://", "\n# node", "[x]"] {
            assert!(!page.contains(live), "{live:?}: {page}");
        }
        let row = page.lines().find(|line| line.contains("img")).unwrap();
        assert_eq!(row.replace("\\|", "").matches('|').count(), 10, "{row}");
    }
}
