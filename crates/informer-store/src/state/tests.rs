use std::collections::BTreeSet;

use super::State;

impl<O> State<O> {
    pub(crate) fn assert_invariants(&self) {
        let occupied: BTreeSet<u32> = self.slots().map(|(slot, _)| slot).collect();
        let known: BTreeSet<u32> = self.keys.iter().copied().collect();
        assert_eq!(known, occupied, "keys and slots agree");
        assert_eq!(self.keys.iter().count(), self.len());
        for (slot, entry) in self.slots() {
            let found = self.find(self.hash(entry.key.as_str()), entry.key.as_str());
            assert_eq!(found.map(|(slot, _)| slot), Some(slot), "{} is found under its key", entry.key);
        }
        for index in self.indexes() {
            assert_eq!(index.values.iter().count(), index.value_count());
            for value in index.values.iter() {
                value.posting.assert_invariants();
                assert!(value.posting.iter().all(|slot| occupied.contains(&slot)));
            }
        }
    }

    /// Returns all pairs of a value and a slot in the index at a position, sorted; `None` if that index is
    /// not built.
    pub(crate) fn links(&self, position: usize) -> Option<BTreeSet<(&str, u32)>> {
        let index = self.indexes.get(position)?.as_ref()?;
        let of_value = |value: &'_ super::Value| value.posting.iter().collect::<Vec<_>>();
        let values = index.values.iter();
        Some(values.flat_map(|value| of_value(value).into_iter().map(|slot| (&*value.text, slot))).collect())
    }
}
