use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Posting, RUN_SLOTS};

impl Posting {
    pub(crate) fn assert_invariants(&self) {
        assert!(self.len() > 0, "an empty posting must have been dropped");
        assert!(self.iter().is_sorted_by(|a, b| a < b), "slots ascend");
        assert_eq!(self.iter().count(), self.len());
        match self {
            Self::One(_) => {}
            Self::Few(slots) => assert!(slots.len() <= RUN_SLOTS),
            Self::Many(runs) => assert!(runs.iter().all(|run| !run.is_empty() && run.len() <= RUN_SLOTS)),
        }
    }
}

proptest! {
    #[test]
    fn a_posting_is_a_sorted_set(steps in prop::collection::vec((any::<bool>(), 0..5000u32), 1..4000)) {
        let mut model = BTreeSet::from([steps[0].1]);
        let mut posting = Posting::One(steps[0].1);
        for (insert, slot) in steps {
            if insert {
                posting.insert(slot);
                model.insert(slot);
            } else if model.contains(&slot) {
                if posting.remove(slot) {
                    prop_assert_eq!(model.len(), 1);
                    return Ok(());
                }
                model.remove(&slot);
            }
            prop_assert_eq!(posting.len(), model.len());
        }
        posting.assert_invariants();
        prop_assert!(posting.iter().eq(model));
    }
}

#[test]
fn ascending_slots_fill_whole_runs_and_vanish_in_any_order() {
    let mut posting = Posting::One(0);
    (1..10_000).for_each(|slot| posting.insert(slot));
    posting.assert_invariants();
    assert!(matches!(&posting, Posting::Many(runs) if runs.len() == 10_000usize.div_ceil(RUN_SLOTS)));
    for slot in (0..10_000).rev().filter(|slot| slot % 2 == 0).chain((0..10_000).filter(|slot| slot % 2 == 1))
    {
        let emptied = posting.remove(slot);
        assert_eq!(emptied, slot == 9_999);
    }
}
