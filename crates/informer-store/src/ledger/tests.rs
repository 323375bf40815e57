use std::collections::BTreeSet;

use super::Ledger;
use crate::state::State;

impl<O> Ledger<O> {
    /// Panics unless the index values and the free slots that the ledger has recorded match `state`.
    pub(crate) fn assert_describes(&self, state: &State<O>) {
        let occupied: BTreeSet<u32> = state.slots().map(|(slot, _)| slot).collect();
        let free: BTreeSet<u32> = self.free.iter().copied().collect();
        assert_eq!(free.len(), self.free.len(), "no slot is free twice");
        assert!(free.is_disjoint(&occupied));
        assert!(free.union(&occupied).copied().eq(0..self.next), "each slot is occupied or free");
        assert!(self.log.is_empty());
        for position in 0..self.definitions.len() {
            let values = (0..).zip(&self.values[position]);
            let expected: BTreeSet<(&str, u32)> = values
                .flat_map(|(slot, values)| values.as_slice().iter().map(move |value| (&**value, slot)))
                .collect();
            match state.links(position) {
                Some(links) => assert_eq!(links, expected, "index {}", self.definitions[position].name),
                None => assert!(!self.installed[position]),
            }
        }
    }
}
