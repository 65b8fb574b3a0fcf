//! `railgauge inventory` on this machine and on trees, and what a run keeps of it.

use std::path::Path;

use record::{Inventory, PartClass, Recorded};

use crate::harness::{Bench, SMALL};

/// Writes a tree of one NIC with this firmware, under the folder `name`.
fn tree(bench: &Bench, name: &str, firmware: &str) {
    let nic = bench.path().join(name).join("sys/class/infiniband/mlx5_0");
    std::fs::create_dir_all(&nic).unwrap();
    for (file, text) in [
        ("fw_ver", firmware),
        ("board_id", "MT_0000000838"),
        ("hca_type", "MT4129"),
    ] {
        std::fs::write(nic.join(file), format!("{text}\n")).unwrap();
    }
}

#[test]
fn without_a_word_this_machine_is_told_of_and_what_is_saved_can_be_compared_with() {
    let bench = Bench::new(SMALL);
    let said = bench.railgauge("inventory --save now.json").must_exit(0).stdout;
    assert!(said.contains("hosts") && said.contains("kernel"), "{said}");
    let saved = Inventory::read(&bench.path().join("now.json")).unwrap();
    let [node] = saved.nodes.as_slice() else {
        panic!("{saved:?}")
    };
    assert!(node.part(PartClass::Host, &node.node).is_some());
    let said = bench
        .railgauge("inventory --quiet --against now.json")
        .must_exit(0)
        .stdout;
    assert!(said.starts_with("nothing differs: 1 host "), "{said}");
    let said = bench.railgauge("inventory --json").must_exit(0).stdout;
    let printed: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(printed["exit_code"], 0);
    assert_eq!(printed["inventory"]["nodes"][0]["node"], node.node.as_str());
}

#[test]
fn of_three_recorded_trees_the_one_that_differs_is_named() {
    let bench = Bench::new(SMALL);
    for (name, firmware) in [("n1", "28.43.2026"), ("n2", "28.39.1002"), ("n3", "28.43.2026")] {
        tree(&bench, name, firmware);
    }
    let said = bench
        .railgauge("inventory --root n1 --root n2 --root n3")
        .must_exit(10)
        .stdout;
    let drift = said.lines().find(|line| line.starts_with("drift: ")).unwrap();
    assert!(
        drift.contains("n2/mlx5_0") && drift.contains("28.39.1002"),
        "{said}"
    );
    assert!(drift.contains("28.43.2026 on 2 of 3"), "{said}");
    // Two of them: nobody can tell.
    bench.railgauge("inventory --root n1 --root n2").must_exit(20);
    std::fs::write(
        bench.path().join("gold.toml"),
        "[[nic]]\nfirmware = \"28.39.1002\"\n",
    )
    .unwrap();
    let said = bench
        .railgauge("inventory --root n1 --root n2 --golden gold.toml")
        .must_exit(10)
        .stdout;
    assert!(
        said.contains("n1/mlx5_0") && said.contains("gold.toml line 2"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_read_is_named_before_anything_is_asked() {
    let bench = Bench::new(SMALL);
    let refused = |words: &str| bench.railgauge(words).must_exit(2).stderr;
    assert!(refused("inventory --root nowhere").contains("nowhere: no such folder"));
    assert!(refused("inventory --against nowhere.json").contains("nowhere.json"));
    std::fs::write(bench.path().join("bad.json"), "{\n\"schema\": 1,\n oops").unwrap();
    assert!(refused("inventory --against bad.json").contains("bad.json, line 3"));
    std::fs::write(bench.path().join("new.json"), "{\"schema\": 99}").unwrap();
    assert!(refused("inventory --against new.json").contains("use a newer one"));
    std::fs::write(bench.path().join("gold.toml"), "[[nic]]\nfirmwrae = \"1\"\n").unwrap();
    let said = refused("run suite.toml --out out --golden gold.toml");
    assert!(
        said.contains("gold.toml:2") && said.contains("firmware"),
        "{said}"
    );
    assert!(refused("inventory --switch-inventory nowhere").contains("nowhere: no such file or folder"));
    std::fs::write(
        bench.path().join("rules.toml"),
        "[[rule]]\nname = \"x\"\nbuond = \"any\"\n",
    )
    .unwrap();
    let said = refused("run suite.toml --out out --counter-rules rules.toml");
    assert!(said.contains("rules.toml:3") && said.contains("bound"), "{said}");
    assert!(refused("inventory --golden /dev/zero").contains("not a regular file"));
    assert!(
        !bench.out().exists(),
        "a folder was made for a run that cannot be"
    );
}

#[test]
fn a_run_keeps_what_it_was_made_of_and_what_it_was_compared_with() {
    let bench = Bench::new(SMALL);
    bench.railgauge("inventory --save before.json").must_exit(0);
    std::fs::write(
        bench.path().join("gold.toml"),
        "[[host]]\nkernel = \"no such kernel\"\n",
    )
    .unwrap();
    bench.run("--since before.json --golden gold.toml --quiet");
    let recorded = bench.recorded();
    let names = |inventory: &Option<Inventory>| {
        let nodes = inventory.as_ref().map(|inventory| inventory.nodes.clone());
        nodes
            .unwrap_or_default()
            .iter()
            .map(|node| node.node.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&recorded.inventory), names(&recorded.inventory_before));
    assert_eq!(
        names(&recorded.inventory).len(),
        1,
        "one host, however many ranks"
    );
    let drift = bench.judgement().drift.unwrap();
    let kernel = drift
        .deviations
        .iter()
        .find(|deviation| deviation.fact == "kernel")
        .unwrap();
    assert_eq!(kernel.expected, "no such kernel");
    // Judged again elsewhere, without the files that were named.
    let again = judge::findings::judge(&Recorded::read(&bench.out()).unwrap());
    assert_eq!(again.drift, Some(drift));

    let bench = Bench::new(SMALL);
    bench.run("--no-inventory --quiet");
    assert!(bench.recorded().inventory.is_none() && bench.judgement().drift.is_none());
    assert!(!Path::new(&bench.out()).join("inventory.json").exists());
}

#[test]
fn a_recorded_machine_tells_elsewhere_what_it_told_itself() {
    let bench = Bench::new(SMALL);
    bench
        .railgauge("inventory --save-tree saved --save here.json --quiet")
        .must_exit(0);
    let said = bench
        .railgauge("inventory --root saved --json")
        .must_exit(0)
        .stdout;
    let there: serde_json::Value = serde_json::from_str(&said).unwrap();
    let here = Inventory::read(&bench.path().join("here.json")).unwrap();
    let here = serde_json::to_value(&here.nodes[0].parts).unwrap();
    let there = &there["inventory"]["nodes"][0]["parts"];
    for (here, there) in here.as_array().unwrap().iter().zip(there.as_array().unwrap()) {
        assert_eq!(here["class"], there["class"]);
        for (fact, value) in there["facts"].as_object().unwrap() {
            assert_eq!(value, &here["facts"][fact], "{} {fact}", here["name"]);
        }
    }
    assert_eq!(here.as_array().unwrap().len(), there.as_array().unwrap().len());
    let said = bench.railgauge("inventory --save-tree saved").must_exit(2).stderr;
    assert!(said.contains("the folder is not empty"), "{said}");
}

#[test]
fn the_node_with_half_the_lanes_and_the_one_with_a_port_down_are_told_of() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/inventory");
    let bench = Bench::new(SMALL);
    let said = bench
        .railgauge(&format!("inventory --root {data}/half-width"))
        .must_exit(10)
        .stdout;
    assert!(said.contains("drift: pci width 8 on"), "{said}");
    assert!(said.contains("drift: port width 2X NDR on"), "{said}");
    let said = bench
        .railgauge(&format!("inventory --root {data}/port-down"))
        .must_exit(10)
        .stdout;
    assert!(
        said.lines().any(|line| line.starts_with("drift: port ")),
        "{said}"
    );
    for healthy in ["cx7-8x-ib", "soft-roce", "no-rdma"] {
        bench
            .railgauge(&format!("inventory --root {data}/{healthy}"))
            .must_exit(0);
    }
}
