//! A lab's switches tell what they are made of, and a run of the lab hears it without being told.

use crate::harness::{TestLab, labs_can_be_made};

const OTHER: &str = "31.2010.3118";

#[test]
fn other_firmware_on_one_switch_is_found_by_an_inventory_of_the_lab_and_healed() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["4x1", "--leaves", "4", "--spines", "2"]);
    let usual = lab.does("inventory", &[]);
    assert!(
        usual.contains("name = \"rail0-leaf1\"") && !usual.contains(OTHER),
        "{usual}"
    );
    lab.does("fault", &[&format!("switch-firmware:rail0-leaf1={OTHER}")]);
    let output = lab.run("run", &["--", "inventory", "--quiet"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let odd: Vec<&str> = said.lines().filter(|line| line.contains(OTHER)).collect();
    assert_eq!(output.status.code(), Some(10), "{output:?}");
    assert!(odd.iter().any(|line| line.contains("rail0-leaf1")), "{said}");
    lab.does("heal", &["switch-firmware:rail0-leaf1"]);
    assert_eq!(lab.does("inventory", &[]), usual);
    let output = lab.run("run", &["--", "inventory", "--quiet"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        !said.contains(OTHER) && output.status.code() == Some(0),
        "{output:?}"
    );
}
