//! Plans over RDMA: only where all can, on the terms that were asked for.

use record::{MemoryPath, RdmaPort, VerbsTerms};

use super::*;

/// Hosts whose every rail has an RDMA port that is up.
fn rdma_cluster(hosts: u32, rails: usize) -> Fabric {
    let mut fabric = cluster(hosts, rails);
    for record in &mut fabric.ranks {
        for (index, end) in record.rails.iter_mut().enumerate() {
            end.rdma = Some(RdmaPort {
                device: format!("mlx5_{index}"),
                port: 1,
                link_layer: "Ethernet".to_string(),
                state: Some("ACTIVE".to_string()),
            });
        }
    }
    fabric
}

fn ready() -> Choices {
    Choices {
        verbs: Some(Ok(())),
        ..Default::default()
    }
}

fn refusal(fabric: &Fabric, choices: &Choices) -> String {
    let asked = suite("sizes = [\"8\"]\ntransport = \"verbs\"");
    let error = Plan::new(&asked, fabric, choices).unwrap_err();
    assert_eq!(error.exit_code(), 3, "{error}");
    error.to_string()
}

#[test]
fn auto_takes_rdma_where_every_end_of_every_rail_can_and_says_why_where_some_could() {
    let auto = suite("sizes = [\"8\"]");
    let transport = |fabric: &Fabric, choices: &Choices| {
        let plan = Plan::new(&auto, fabric, choices).unwrap();
        assert_sound(&plan, fabric);
        (plan.cells[0].transport, untested(&plan))
    };
    let mut fabric = rdma_cluster(3, 2);
    assert_eq!(
        transport(&fabric, &ready()),
        (TransportKind::Verbs, String::new())
    );
    fabric.ranks[1].rails[1].rdma = None;
    let (taken, said) = transport(&fabric, &ready());
    assert_eq!(taken, TransportKind::Tcp);
    assert!(
        said.contains("over RDMA: rail rail1 has no RDMA device on rank 1 (node01)"),
        "{said}"
    );
    // Where there is nothing to be seen of RDMA, nothing is said about it.
    assert_eq!(
        transport(&cluster(3, 2), &Choices::default()),
        (TransportKind::Tcp, String::new())
    );
    let rails = suite("kind = \"rails\"\nsizes = [\"8\"]");
    let plan = Plan::new(&rails, &rdma_cluster(2, 2), &ready()).unwrap();
    assert!(
        plan.cells
            .iter()
            .all(|cell| cell.transport == TransportKind::Verbs)
    );
    assert_eq!(plan.cells.len(), 4, "each rail alone, then both together");
}

#[test]
fn asked_for_and_not_possible_is_an_error_that_names_host_and_reason() {
    let mut fabric = rdma_cluster(6, 1);
    let missing = Choices {
        verbs: Some(Err("rank 1 (node01): libibverbs.so.1 not found".to_string())),
        ..Default::default()
    };
    assert_eq!(
        refusal(&fabric, &missing),
        "test `t` asks for the verbs transport: rank 1 (node01): libibverbs.so.1 not found"
    );
    fabric.ranks[1].rails[0].rdma.as_mut().unwrap().state = Some("DOWN".to_string());
    fabric.ranks[2].rails[0].rdma = None;
    let said = refusal(&fabric, &ready());
    assert!(
        said.contains("rail rail0: port 1 of mlx5_0 on rank 1 (node01) is DOWN, not ACTIVE"),
        "{said}"
    );
    assert!(
        said.contains("rail rail0 has no RDMA device on rank 2 (node02)") && said.contains("--rails"),
        "{said}"
    );
    fabric.ranks.iter_mut().for_each(|rank| rank.rails[0].rdma = None);
    let said = refusal(&fabric, &ready());
    assert!(said.contains("; and 2 more"), "{said}");
}

#[test]
fn cells_carry_the_terms_and_only_over_rdma() {
    let text = "name = \"s\"\n[verbs]\ntraffic_class = 106\npath_mtu = 1024\n[[test]]\nname = \"a\"\nsizes = [\"8\"]\n\
                transport = \"verbs\"\n[[test]]\nname = \"b\"\nsizes = [\"8\"]\ntransport = \"tcp\"\n";
    let suite = SuiteFile::parse(text, "x.toml").unwrap().check().unwrap();
    let plan = Plan::new(&suite, &rdma_cluster(2, 1), &ready()).unwrap();
    for cell in &plan.cells {
        let terms = (cell.test == "a").then_some(VerbsTerms {
            memory: MemoryPath::Host,
            traffic_class: 106,
            path_mtu: Some(1024),
            ..Default::default()
        });
        assert_eq!(cell.verbs, terms, "{}", cell.describe());
    }
}

#[test]
fn gpu_data_goes_the_way_that_was_asked_for_or_the_run_is_refused() {
    let mut fabric = rdma_cluster(2, 1);
    let asked = |choice: &str| {
        let text = format!(
            "name = \"s\"\n[verbs]\ngpudirect = \"{choice}\"\n[[test]]\nname = \"t\"\nsizes = [\"8\"]\ntransport = \"verbs\"\n"
        );
        SuiteFile::parse(&text, "x.toml").unwrap().check().unwrap()
    };
    let with = |possible: Result<(), String>| Choices {
        gpudirect: Some(possible),
        ..ready()
    };
    let cannot = || with(Err("rank 0 (node00): no dma-buf".to_string()));
    let on_cpu = Plan::new(&asked("on"), &fabric, &with(Ok(()))).unwrap_err();
    assert!(on_cpu.to_string().contains("--device cuda"), "{on_cpu}");
    fabric
        .ranks
        .iter_mut()
        .for_each(|rank| rank.device = DeviceKind::Cuda);
    let memory = |choice: &str, choices: &Choices| {
        let plan = Plan::new(&asked(choice), &fabric, choices).map_err(|error| {
            assert_eq!(error.exit_code(), 3);
            error.to_string()
        })?;
        Ok::<_, String>(plan.cells[0].verbs.unwrap().memory)
    };
    assert_eq!(memory("auto", &with(Ok(()))), Ok(MemoryPath::GpuDirect));
    assert_eq!(memory("auto", &cannot()), Ok(MemoryPath::Staged));
    let staged = Plan::new(&asked("auto"), &fabric, &cannot()).unwrap();
    assert_eq!(
        untested(&staged),
        "test `t`: by GPUDirect: rank 0 (node00): no dma-buf"
    );
    assert_eq!(memory("off", &with(Ok(()))), Ok(MemoryPath::Staged));
    assert_eq!(memory("on", &with(Ok(()))), Ok(MemoryPath::GpuDirect));
    let refused = memory("on", &cannot()).unwrap_err();
    assert!(refused.ends_with("rank 0 (node00): no dma-buf"), "{refused}");
}

#[test]
fn pinned_ports_that_roce_packets_cannot_have_are_refused() {
    let error = |port: u32| {
        let asked = suite(&format!(
            "sizes = [\"8\"]\ntransport = \"verbs\"\nflows = 4\nsource_port = {port}"
        ));
        Plan::new(&asked, &rdma_cluster(4, 1), &ready())
            .err()
            .map(|error| (error.exit_code(), error.to_string()))
    };
    assert_eq!(error(49_152), None);
    let (code, below) = error(49_151).unwrap();
    assert!(code == 2 && below.contains("49152 to 65535"), "{below}");
    let (code, past) = error(65_521).unwrap();
    assert!(code == 2 && past.contains("past port 65535"), "{past}");
}

#[test]
fn infiniband_rails_are_compared_with_what_infiniband_delivers() {
    let mut fabric = rdma_cluster(2, 1);
    for record in &mut fabric.ranks {
        record.rails[0].rdma.as_mut().unwrap().link_layer = "InfiniBand".to_string();
    }
    let asked = suite("sizes = [\"8\"]\ntransport = \"verbs\"\n[test.expect]\nspec = \"auto\"");
    let plan = Plan::new(&asked, &fabric, &ready()).unwrap();
    let [Reference::Spec(row)] = plan.tests[0].references.as_slice() else {
        panic!("{:?}", plan.tests[0]);
    };
    assert_eq!(row.id, "ndr400");
}
