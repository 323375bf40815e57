use std::collections::HashSet;

use super::{PORTS, PORTS_DRAWN_MIN, draw_port};

#[test]
fn the_first_ports_are_left_to_those_who_name_them_while_there_are_others() {
    let drawn: Vec<i64> = (0..200).filter_map(|_| draw_port(&HashSet::new())).collect();
    assert!(drawn.len() == 200 && drawn.iter().all(|port| *port >= PORTS_DRAWN_MIN), "{drawn:?}");
    let mut used: HashSet<i64> = PORTS.filter(|port| *port != 30_007).collect();
    assert_eq!(draw_port(&used), Some(30_007));
    used.insert(30_007);
    assert_eq!(draw_port(&used), None);
}
