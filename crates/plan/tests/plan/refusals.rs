//! What a fabric cannot do is refused or reported, never replaced in silence.

use super::*;

#[test]
fn a_rank_left_over_by_groups_is_said_and_an_unknown_one_is_an_error() {
    let plan = Plan::new(
        &suite("sizes = [\"8\"]\ngroups = \"halves\""),
        &fabric(5, 1, None),
        &threads(),
    )
    .unwrap();
    assert_eq!(plan.cells.len(), 2);
    assert!(untested(&plan).contains("rank 4"), "{}", untested(&plan));
    let error = Plan::new(
        &suite("sizes = [\"8\"]\ngroups = [[0, 9]]"),
        &fabric(4, 1, None),
        &threads(),
    );
    let error = error.unwrap_err();
    assert_eq!(
        error.to_string(),
        "test `t`: a group names rank 9, but the ranks are 0 to 3"
    );
    assert_eq!(error.exit_code(), 3);
}

#[test]
fn a_transport_that_is_not_to_be_had_is_an_error_and_never_another_transport() {
    let shm = suite("sizes = [\"8\"]\ntransport = \"shm\"");
    let error = Plan::new(&shm, &fabric(2, 1, None), &Choices::default()).unwrap_err();
    assert!(error.to_string().contains("different processes"), "{error}");
    assert_eq!(error.exit_code(), 3);
    for (transport, why) in [
        ("verbs", "asks for the verbs transport"),
        ("peer", "use it with --device cuda"),
    ] {
        let suite = suite(&format!("sizes = [\"8\"]\ntransport = \"{transport}\""));
        let error = Plan::new(&suite, &fabric(2, 1, None), &threads()).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(error.exit_code(), 3);
    }
    let auto = suite("sizes = [\"8\"]");
    let plan = Plan::new(&auto, &fabric(2, 1, None), &Choices::default()).unwrap();
    assert_eq!(plan.cells[0].transport, TransportKind::Tcp);
}

/// Two ranks that share a GPU on which so many thread blocks run at the same time.
fn on_one_gpu(ranks: u32, blocks: u32) -> Fabric {
    let mut fabric = fabric(ranks, 1, None);
    for record in &mut fabric.ranks {
        record.device = DeviceKind::Cuda;
        record.gpu = Some(GpuRecord {
            name: "a GPU".to_string(),
            uuid: "GPU-1".to_string(),
            pci: "0000:01:00.0".to_string(),
            blocks,
        });
    }
    fabric
}

#[test]
fn on_gpus_memory_is_used_directly_where_that_is_possible_and_only_there() {
    let direct = Choices {
        direct: true,
        ..threads()
    };
    let with = |transport: &str| suite(&format!("sizes = [\"8\"]\ntransport = \"{transport}\""));
    let transport = |asked: &str, choices: &Choices| {
        let plan = Plan::new(&with(asked), &on_one_gpu(2, 8), choices);
        plan.map(|plan| plan.cells[0].transport)
    };
    assert_eq!(transport("auto", &direct), Ok(TransportKind::Peer));
    // What looks for slow links needs links, wherever its ranks are.
    let links = suite("kind = \"pairs\"\nschedule = \"adaptive\"\ndirections = \"one-way\"\nsizes = [\"8\"]");
    let left_out = untested(&Plan::new(&links, &on_one_gpu(2, 8), &direct).unwrap());
    assert!(
        left_out.contains("no two hosts have a path") && !left_out.contains("transport peer"),
        "{left_out}"
    );
    assert_eq!(transport("auto", &threads()), Ok(TransportKind::Tcp));
    assert_eq!(transport("tcp", &direct), Ok(TransportKind::Tcp));
    let error = transport("peer", &threads()).unwrap_err();
    assert!(matches!(error, PlanError::NotDirect { .. }), "{error}");
    let error = transport("shm", &direct).unwrap_err();
    assert!(error.to_string().contains("--transport peer or tcp"), "{error}");
    assert_eq!(error.exit_code(), 3);
}

#[test]
fn ranks_that_do_not_fit_on_a_gpu_together_are_refused_before_they_wait_for_each_other_for_ever() {
    let suite = suite("sizes = [\"8\"]");
    let direct = Choices {
        direct: true,
        ..threads()
    };
    assert!(Plan::new(&suite, &on_one_gpu(4, 4), &direct).is_ok());
    let error = Plan::new(&suite, &on_one_gpu(5, 4), &direct).unwrap_err();
    assert_eq!(error.exit_code(), 3);
    let text = error.to_string();
    assert!(
        text.contains("5 ranks share GPU GPU-1, which runs 4 thread blocks"),
        "{text}"
    );
    assert!(text.contains("fewer ranks per GPU"), "{text}");
}

#[test]
fn a_rail_that_some_rank_lacks_is_untested_and_no_common_rail_is_an_error() {
    let tcp = suite("sizes = [\"8\"]\ntransport = \"tcp\"");
    let mut fabric = cluster(2, 2);
    fabric.ranks[1].rails.remove(1);
    let plan = Plan::new(&tcp, &fabric, &Choices::default()).unwrap();
    assert_eq!(untested(&plan), "rail rail1: missing on rank 1 (node01)");
    fabric.ranks[1].rails.clear();
    let error = Plan::new(&tcp, &fabric, &Choices::default()).unwrap_err();
    assert!(matches!(error, PlanError::NoRail { .. }), "{error}");
    assert!(error.to_string().contains("rank 1 (node01)"), "{error}");
}

#[test]
fn rails_chosen_on_the_command_line_are_used_and_the_others_reported() {
    let tcp = suite("sizes = [\"8\"]\ntransport = \"tcp\"");
    let choose = |rail: &str| Choices {
        rails: Some(vec![rail.to_string()]),
        ..threads()
    };
    let plan = Plan::new(&tcp, &fabric(2, 2, None), &choose("rail1")).unwrap();
    assert_eq!(plan.cells[0].rails, ["rail1"]);
    assert_eq!(untested(&plan), "rail rail0: left out by --rails");
    let error = Plan::new(&tcp, &fabric(2, 2, None), &choose("rail7")).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("there are rail0, rail1"), "{error}");
}

#[test]
fn a_plan_that_would_never_end_is_refused_before_memory_runs_out() {
    let suite = suite("kind = \"pairs\"\nsizes = { from = 8, to = \"64K\", step = 16 }");
    let error = Plan::new(&suite, &fabric(1000, 1, None), &threads()).unwrap_err();
    assert!(matches!(error, PlanError::TooManyCells { .. }), "{error}");
}

#[test]
fn pinned_ports_and_roots_outside_their_range_are_refused() {
    let ports = suite("sizes = [\"8\"]\nsource_port = 65500\nflows = 16");
    assert!(matches!(
        Plan::new(&ports, &fabric(4, 1, None), &threads()),
        Err(PlanError::TooManyPorts { .. })
    ));
    let root = suite("sizes = [\"8\"]\ncollective = \"broadcast\"\nroot = 4");
    assert!(matches!(
        Plan::new(&root, &fabric(4, 1, None), &threads()),
        Err(PlanError::RootOutside { .. })
    ));
}
