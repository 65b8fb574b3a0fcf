//! `railgauge topology`: folders of a subnet manager, read, checked and written as a topology file.

use std::fs;

use crate::harness::{Bench, SMALL};

/// Two leaves with a host each and a spine; the tables send everything over it.
const DATABASE: &str = "\
START_NODES
NodeDesc,NumPorts,NodeType,NodeGUID
\"gpu001 mlx5_0\",1,1,0x1
\"gpu002 mlx5_0\",1,1,0x2
\"MF0;leaf1:MQM9700/U1\",40,2,0xa1
\"MF0;leaf2:MQM9700/U1\",40,2,0xa2
\"MF0;spine1:MQM9700/U1\",40,2,0xb1
END_NODES
START_PORTS
NodeGuid,PortNum,LID,LMC,LinkWidthActv,LinkSpeedActv
0x1,1,1,0,2,0x800
0x2,1,2,0,2,0x800
END_PORTS
START_LINKS
NodeGuid1,PortNum1,NodeGuid2,PortNum2
0x1,1,0xa1,1
0x2,1,0xa2,1
0xa1,20,0xb1,1
0xa2,20,0xb1,2
END_LINKS
";
const TABLES: &str = "\
osm_ucast_mgr_dump_ucast_routes: Switch 0x00000000000000a1
LID    : Port : Hops : Optimal
0x0001 : 001  : 00   : yes
0x0002 : 020  : 02   : yes

osm_ucast_mgr_dump_ucast_routes: Switch 0x00000000000000a2
0x0001 : 020  : 02   : yes
0x0002 : 001  : 00   : yes

osm_ucast_mgr_dump_ucast_routes: Switch 0x00000000000000b1
0x0001 : 001  : 01   : yes
0x0002 : 002  : 01   : yes
";

fn folder(bench: &Bench, tables: &str) -> String {
    let folder = bench.path().join("ibdiagnet2");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("ibdiagnet2.db_csv"), DATABASE).unwrap();
    fs::write(folder.join("ibdiagnet2.fdbs"), tables).unwrap();
    fs::write(folder.join("notes.txt"), "not a table").unwrap();
    folder.display().to_string()
}

#[test]
fn a_subnet_managers_folder_becomes_a_topology_file_that_runs_take() {
    let bench = Bench::new(SMALL);
    let folder = folder(&bench, TABLES);
    let said = bench
        .railgauge(&format!("topology check {folder}"))
        .must_exit(0)
        .stdout;
    assert!(
        said.contains("2 hosts, 2 leaves, 1 spines, 0 cores, 4 cables"),
        "{said}"
    );
    assert!(
        said.contains("forwarding tables of 3 switches; 0 of them choose"),
        "{said}"
    );
    assert!(said.contains("notes.txt: not about nodes"), "{said}");
    let file = bench.path().join("fabric.toml").display().to_string();
    bench
        .railgauge(&format!("topology import {folder} --out {file}"))
        .must_exit(0);
    let said = bench
        .railgauge(&format!("topology check {file} --json"))
        .must_exit(0)
        .stdout;
    let summary: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&summary["with_table"], &summary["problems"]),
        (&3.into(), &serde_json::json!([]))
    );
    let said = bench
        .railgauge(&format!("topology path {folder} gpu001/mlx5_0 gpu002/mlx5_0"))
        .must_exit(0)
        .stdout;
    assert_eq!(
        said,
        "gpu001/mlx5_0 -> leaf1/p20 -> spine1/p2 -> leaf2/p1 -> gpu002/mlx5_0 (LID 2)\n"
    );
    // A slow cable between switches is named as on Ethernet.
    let slow = "--slow leaf1:p20:away=50% --json";
    let said = bench
        .railgauge(&format!("simulate {folder} {slow}"))
        .must_exit(12)
        .stdout;
    assert!(said.contains("leaf1/p20->spine1/p1"), "{said}");
}

#[test]
fn tables_that_lead_round_in_a_circle_or_nowhere_are_named() {
    let bench = Bench::new(SMALL);
    let circle = TABLES.replace("0x0002 : 002  : 01   : yes", "0x0002 : 001  : 01   : yes");
    let said = bench
        .railgauge(&format!("topology check {}", folder(&bench, &circle)))
        .must_exit(2)
        .stderr;
    assert!(
        said.contains("spine1, LID 2: packets to it go round in a circle"),
        "{said}"
    );
    let nowhere = TABLES.replace("0x0002 : 002  : 01   : yes", "0x0002 : 009  : 01   : yes");
    let said = bench
        .railgauge(&format!("topology check {}", folder(&bench, &nowhere)))
        .must_exit(2)
        .stderr;
    assert!(
        said.contains("spine1, LID 2: packets to it have no way"),
        "{said}"
    );
    let other = TABLES.replace("00b1", "00b2");
    let said = bench
        .railgauge(&format!("topology check {}", folder(&bench, &other)))
        .must_exit(2)
        .stderr;
    assert!(
        said.contains("ibdiagnet2.fdbs:10: switch 0x00000000000000b2 is not in the topology"),
        "{said}"
    );
    let missing = bench.railgauge("topology check /nowhere").must_exit(2).stderr;
    assert!(missing.contains("/nowhere"), "{missing}");
}
