use std::collections::HashSet;

use super::{MIN_DYNAMIC_PORT, PORTS, pick_port};

#[test]
fn reserved_node_ports_are_allocated_last() {
    let dynamic: Vec<i64> = (0..200).filter_map(|_| pick_port(&HashSet::new())).collect();
    assert!(dynamic.len() == 200 && dynamic.iter().all(|port| *port >= MIN_DYNAMIC_PORT), "{dynamic:?}");
    let mut used: HashSet<i64> = PORTS.filter(|port| *port != 30_007).collect();
    assert_eq!(pick_port(&used), Some(30_007));
    used.insert(30_007);
    assert_eq!(pick_port(&used), None);
}
