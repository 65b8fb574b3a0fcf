//! What a report says about RDMA: where data lay, on which terms queue pairs were made, which ports were behind the rails.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::table::{Entry, Table, figure, text};
use record::{Event, FlowRecord, Judgement, MemoryPath, PortKnowledge, Recorded, VerbsTerms};

/// One line for the summary: how many cells went over RDMA, and where their data lay. None when none did.
pub(super) fn summary(judgement: &Judgement) -> Option<String> {
    let mut cells: BTreeMap<MemoryPath, u32> = BTreeMap::new();
    for terms in judgement.cells.iter().filter_map(|cell| cell.cell.verbs) {
        *cells.entry(terms.memory).or_default() += 1;
    }
    if cells.is_empty() {
        return None;
    }
    let ways = cells
        .iter()
        .map(|(memory, cells)| format!("{cells} cell{} {}", plural(*cells), memory.in_words()));
    Some(format!("rdma       {}", ways.collect::<Vec<_>>().join(", ")))
}

/// The ports behind the rails, and the terms of queue pairs. Nothing for a run without RDMA.
pub(super) fn section(
    out: &mut String,
    recorded: &Recorded,
    judgement: &Judgement,
    most: usize,
) -> Result<(), std::fmt::Error> {
    let mut ports = ports(recorded);
    let rows = ports.rows.len();
    if rows > 0 {
        writeln!(out, "## RDMA ports\n")?;
        ports.rows.truncate(most);
        ports.markdown(out)?;
        match rows.saturating_sub(most) {
            0 => writeln!(out)?,
            left => writeln!(out, "\n{left} more in run.json.\n")?,
        }
    }
    let mut terms = terms(judgement);
    if terms.rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "## RDMA queue pairs\n")?;
    terms.rows.truncate(most);
    terms.markdown(out)?;
    writeln!(out)?;
    match flows(recorded) {
        Some(line) => writeln!(out, "{line}\n"),
        None => Ok(()),
    }
}

/// On which terms queue pairs were made; no row for a run without any.
pub(super) fn terms(judgement: &Judgement) -> Table {
    let mut terms: BTreeMap<(&str, VerbsTerms), u32> = BTreeMap::new();
    for cell in judgement.cells.iter().map(|verdict| &verdict.cell) {
        if let Some(of_cell) = cell.verbs {
            *terms.entry((&cell.test, of_cell)).or_default() += 1;
        }
    }
    let columns = [
        text("test"),
        figure("cells"),
        text("data"),
        figure("service level"),
        figure("traffic class"),
        text("path MTU"),
        text("GID index"),
        text("completion"),
    ];
    let mut table = Table::new("Queue pair settings", columns);
    for ((test, terms), cells) in terms {
        let chosen = |said: Option<String>| Entry::ours(said.unwrap_or_else(|| "chosen".to_string()));
        table.row([
            Entry::from(test),
            Entry::ours(cells),
            Entry::ours(terms.memory.in_words()),
            Entry::ours(terms.service_level),
            Entry::ours(terms.traffic_class),
            chosen(terms.path_mtu.map(|mtu| mtu.to_string())),
            chosen(terms.gid_index.map(|index| index.to_string())),
            chosen(terms.completion.map(|how| how.to_string())),
        ]);
    }
    table
}

/// How the source ports of all queue pairs are known.
pub(super) fn flows(recorded: &Recorded) -> Option<String> {
    let done = recorded.events.iter().filter_map(|event| match event {
        Event::CellDone(done) => Some(&done.flows),
        _ => None,
    });
    let mut known: BTreeMap<&str, u32> = BTreeMap::new();
    let mut ports = BTreeSet::new();
    // Connections are kept from cell to cell: each counts once.
    let mut seen = BTreeSet::new();
    for flow in done.flatten() {
        if seen.insert((flow.from, flow.to, &flow.rail, flow.queue_pair)) {
            *known.entry(how(flow)).or_default() += 1;
            ports.extend(flow.source_port);
        }
    }
    if seen.is_empty() {
        return None;
    }
    let ways = known.iter().map(|(how, flows)| format!("{flows} {how}"));
    Some(format!(
        "Directed queue pairs: {}, with {} different UDP source ports: {}. Each is in samples.jsonl under `flows`.",
        seen.len(),
        ports.len(),
        ways.collect::<Vec<_>>().join(", ")
    ))
}

fn how(flow: &FlowRecord) -> &'static str {
    match flow.known {
        PortKnowledge::FlowLabel => "set by flow label",
        PortKnowledge::Provider => "set by the NIC's own call",
        PortKnowledge::Predicted => "left to the kernel and predicted",
        PortKnowledge::None => "without a port",
    }
}

/// The RDMA ports behind the rails of every host, each once.
pub(super) fn ports(recorded: &Recorded) -> Table {
    let columns = ["host", "rail", "address", "interface", "port", "link", "state"].map(text);
    let mut table = Table::new("RDMA ports", columns);
    let mut seen = BTreeSet::new();
    for rank in &recorded.run.ranks {
        for end in &rank.rails {
            let Some(port) = &end.rdma else { continue };
            let row = [
                rank.host.clone(),
                end.rail.clone(),
                end.address.clone(),
                end.interface.clone().unwrap_or_else(|| "-".to_string()),
                format!("{} port {}", port.device, port.port),
                port.link_layer.clone(),
                port.state.clone().unwrap_or_else(|| "-".to_string()),
            ];
            if seen.insert(row.clone()) {
                table.row(row.map(Entry::from));
            }
        }
    }
    table
}

fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use judge::findings::fixture::Fixture;
    use judge::findings::judge;
    use record::{RailEnd, RdmaPort};

    fn over_rdma() -> Recorded {
        let mut recorded = Fixture::rails(2).recorded();
        for (index, cell) in recorded.run.cells.iter_mut().enumerate() {
            cell.verbs = Some(VerbsTerms {
                memory: if index == 0 {
                    MemoryPath::Staged
                } else {
                    MemoryPath::GpuDirect
                },
                traffic_class: 106,
                ..VerbsTerms::default()
            });
        }
        recorded.run.ranks[1].rails.push(RailEnd {
            rail: "rail0".into(),
            address: "10.0.0.1".into(),
            interface: Some("eth|0".into()),
            speed_mbit: None,
            rdma: Some(RdmaPort {
                device: "mlx5_0".into(),
                port: 1,
                link_layer: "Ethernet".into(),
                state: Some("ACTIVE".into()),
            }),
        });
        let flow = FlowRecord {
            from: 0,
            to: 1,
            rail: "rail0".into(),
            flow: 0,
            queue_pair: 17,
            to_queue_pair: 18,
            source: None,
            destination: None,
            flow_label: 0,
            source_port: Some(0xC123),
            known: PortKnowledge::Predicted,
        };
        for event in &mut recorded.events {
            if let Event::CellDone(done) = event {
                done.flows = vec![flow.clone()];
            }
        }
        recorded
    }

    #[test]
    fn a_report_says_where_the_data_lay_and_by_which_ports_it_went() {
        let recorded = over_rdma();
        let judgement = judge(&recorded);
        let cells = judgement.cells.len() as u32 - 1;
        assert_eq!(
            summary(&judgement).unwrap(),
            format!("rdma       {cells} cells gpudirect, 1 cell staged through host memory")
        );
        let mut out = String::new();
        section(&mut out, &recorded, &judgement, 500).unwrap();
        for part in [
            "| node01 | rail0 | 10.0.0.1 |",
            r"| mlx5\_0 port 1 | Ethernet | ACTIVE |",
            "| rails | 1 | staged through host memory | 0 | 106 | chosen | chosen | chosen |",
            "Directed queue pairs: 1, with 1 different UDP source ports: 1 left to the kernel and predicted",
        ] {
            assert!(out.contains(part), "{part} is not in\n{out}");
        }
        assert!(
            judgement.cells[0]
                .cell
                .describe()
                .contains("over tcp (staged through host memory)"),
            "{}",
            judgement.cells[0].cell.describe()
        );
    }

    #[test]
    fn a_run_without_rdma_says_nothing_of_it() {
        let recorded = Fixture::rails(2).recorded();
        let judgement = judge(&recorded);
        let mut out = String::new();
        section(&mut out, &recorded, &judgement, 500).unwrap();
        assert_eq!((out.as_str(), summary(&judgement)), ("", None));
    }
}
