//! Tables of documented formats, a fat tree of three tiers, and whatever else a file may hold.

use proptest::prelude::*;

use super::database::is_database;
use super::tables::is_tables;
use super::*;

const ROUTES: &str = "\
Unicast lids [0x0-0x4] of switch Lid 4 guid 0x00000000000000a1 (MF0;leaf1:SX6036/U1):
  Lid  Out   Destination
       Port     Info
0x0001 001 : (Channel Adapter portguid 0x0000000000000001: 'gpu001 mlx5_0')
0x0002 002 : (Channel Adapter portguid 0x0000000000000002: 'gpu002 mlx5_0')
0x0004 000 : (Switch portguid 0x00000000000000a1: 'MF0;leaf1:SX6036/U1')
3 valid lids dumped
";

const FDBS: &str = "\
osm_ucast_mgr_dump_ucast_routes: Switch 0x00000000000000a1
LID    : Port : Hops : Optimal
0x0001 : 001  : 00   : yes
0x0002 : 002  : 00   : yes
0x0003 : UNREACHABLE
0x0004 : 000  : 00   : yes
";

const DATABASE: &str = "\
START_NODES
NodeDesc,NumPorts,NodeType,ClassVersion,BaseVersion,SystemImageGUID,NodeGUID,PortGUID,DeviceID
\"gpu001 mlx5_0\",1,1,1,1,0x01,0x01,0x01,4129
\"gpu002 mlx5_0\",1,1,1,1,0x02,0x02,0x02,4129
\"MF0;leaf1, row 2:SX6036/U1\",36,2,1,1,0xa1,0xa1,0xa1,51000
END_NODES

START_PORTS
NodeGuid,PortGuid,PortNum,MKey,GIDPrfx,MSMLID,LID,CapMsk,LMC
0x01,0x01,1,0x0,0xfe80000000000000,4,1,0,0
0x02,0x02,1,0x0,0xfe80000000000000,4,2,0,0
0xa1,0xa1,0,0x0,0xfe80000000000000,4,4,0,0
END_PORTS

START_LINKS
NodeGuid1,PortNum1,NodeGuid2,PortNum2
0x01,1,0xa1,1
0x02,1,0xa1,2
END_LINKS
";

#[test]
fn both_formats_of_tables_say_the_same() {
    let (routes, fdbs) = (read_tables(ROUTES).unwrap(), read_tables(FDBS).unwrap());
    assert!(is_tables(ROUTES) && is_tables(FDBS) && !is_tables(DATABASE));
    for tables in [&routes, &fdbs] {
        let [table] = tables.as_slice() else {
            panic!("{tables:?}");
        };
        assert_eq!((table.switch, table.lids()), (0xa1, 3));
        assert_eq!(table.ports(2), [2]);
        assert!(table.ports(3).is_empty());
    }
}

#[test]
fn a_database_and_its_tables_give_the_path_of_a_lid() {
    assert!(is_database(DATABASE));
    let mut subnet = Subnet::of_database(DATABASE).unwrap();
    let here = subnet.node(1).unwrap();
    assert_eq!(subnet.walk((here, 1), 2), Walk::NoTable(0xa1));
    subnet.add_tables(FDBS).unwrap();
    let leaf = subnet.node(0xa1).unwrap();
    assert_eq!(subnet.nodes()[leaf].description, "MF0;leaf1, row 2:SX6036/U1");
    assert_eq!(
        subnet.walk((here, 1), 2),
        Walk::Arrives(vec![vec![(here, 1), (leaf, 2)]])
    );
    assert_eq!(subnet.walk((here, 1), 3), Walk::EndsNowhere(1));
    assert_eq!(subnet.problems(), []);
}

#[test]
fn tables_of_another_subnet_and_contradictions_are_named_with_their_line() {
    let mut subnet = Subnet::of_database(DATABASE).unwrap();
    let error = |text: &str, subnet: &mut Subnet| {
        let error = subnet.add_tables(text).unwrap_err();
        (error.line, error.message)
    };
    let (line, message) = error(&FDBS.replace("a1", "a2"), &mut subnet);
    assert_eq!(line, Some(1));
    assert!(
        message.contains("0x00000000000000a2") && message.contains("older than the topology"),
        "{message}"
    );
    let (line, message) = error(&FDBS.replace("0x0002 : 002", "0x0001 : 002"), &mut subnet);
    assert_eq!(line, Some(4));
    assert!(message.contains("another port already"), "{message}");
    let (line, _) = error("0x0001 001 : nobody\n", &mut subnet);
    assert_eq!(line, Some(1));
    let (_, message) = error("nothing here", &mut subnet);
    assert!(message.contains("no forwarding table"), "{message}");
}

#[test]
fn a_database_that_ends_in_the_middle_of_a_table_is_refused() {
    let cut = DATABASE.replace("END_LINKS\n", "");
    let error = Subnet::of_database(&cut).unwrap_err();
    assert!(error.message.contains("LINKS is truncated"), "{}", error.message);
    let short = DATABASE.replace("0x02,1,0xa1,2", "0x02,1");
    let error = Subnet::of_database(&short).unwrap_err();
    assert!(error.message.contains("2 of 4 columns"), "{}", error.message);
}

#[test]
fn a_circle_and_a_dead_end_are_found() {
    let mut subnet = Subnet::of_database(DATABASE).unwrap();
    let leaf = subnet.node(0xa1).unwrap();
    let spine = subnet.add_node(0xb1, "spine", true, 0);
    assert!(subnet.add_cable([(leaf, 10), (spine, 1)], Rate(0.0), 0));
    subnet
        .add_tables(&FDBS.replace("0x0002 : 002", "0x0002 : 010"))
        .unwrap();
    let back =
        "osm_ucast_mgr_dump_ucast_routes: Switch 0xb1\n0x0001 : 001 : 00 : yes\n0x0002 : 001 : 00 : yes\n";
    subnet.add_tables(back).unwrap();
    let here = subnet.node(1).unwrap();
    assert_eq!(subnet.walk((here, 1), 2), Walk::Loops(0xa1));
    let circle = "packets to it go round in a circle";
    let found: Vec<(u64, u16, &str)> = subnet
        .problems()
        .iter()
        .map(|problem| (problem.switch, problem.lid, problem.what))
        .collect();
    assert_eq!(found, [(0xa1, 2, circle), (0xb1, 2, circle)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn whatever_a_file_holds_is_read_or_refused(text in "\\PC{0,200}", cut in 0usize..400, at in 0usize..400, byte in any::<u8>()) {
        let _ = read_tables(&text);
        for good in [ROUTES, FDBS, DATABASE] {
            let mut bytes = good.as_bytes().to_vec();
            let place = at % bytes.len();
            bytes[place] = byte;
            bytes.truncate(cut.max(1));
            let damaged = String::from_utf8_lossy(&bytes);
            let _ = read_tables(&damaged);
            if let Ok(mut subnet) = Subnet::of_database(&damaged) {
                let _ = subnet.add_tables(FDBS);
                let _ = subnet.problems();
            }
        }
    }
}
