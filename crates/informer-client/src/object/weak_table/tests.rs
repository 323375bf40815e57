use std::sync::Arc;

use super::{MAX_SETS, MIN_SETS, STRIPES, WAYS, WeakTable};

fn insert(table: &WeakTable<u64>, hash: u64) -> Arc<u64> {
    table.find_or_insert(hash, |value| *value == hash, || hash)
}

fn find_again(table: &WeakTable<u64>, hash: u64) -> Option<Arc<u64>> {
    table.find_or_insert_again(hash, |value| *value == hash, || hash)
}

fn hash(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns the `n`th hash that maps to the first set of the first stripe, whatever the number of sets.
fn of_one_set(n: u64) -> u64 {
    n * (STRIPES * MAX_SETS) as u64
}

fn sets<T>(table: &WeakTable<T>) -> usize {
    table.stripes.iter().map(|stripe| stripe.lock().sets.len()).max().unwrap()
}

#[test]
fn value_in_use_is_found_and_unused_value_is_created_again() {
    let table = WeakTable::default();
    let one = insert(&table, 7);
    assert!(Arc::ptr_eq(&one, &insert(&table, 7)));
    let weak = Arc::downgrade(&one);
    drop(one);
    assert_eq!(weak.strong_count(), 0, "the table keeps the value alive");
    assert_eq!(*insert(&table, 7), 7);
}

#[test]
fn values_with_equal_hashes_are_not_confused() {
    let table = WeakTable::default();
    let one = table.find_or_insert(7, |value| *value == 'a', || 'a');
    let other = table.find_or_insert(7, |value| *value == 'b', || 'b');
    assert_eq!((*one, *other), ('a', 'b'));
    let again = table.find_or_insert_again(7, |value| *value == 'a', || 'a');
    assert_eq!(again.as_deref(), Some(&'a'));
}

#[test]
fn value_is_inserted_when_its_hash_is_seen_a_second_time() {
    let table = WeakTable::default();
    assert_eq!(find_again(&table, 9), None);
    let second = find_again(&table, 9).unwrap();
    assert!(Arc::ptr_eq(&second, &find_again(&table, 9).unwrap()));
}

#[test]
fn alternating_hashes_of_one_set_do_not_evict_each_other() {
    let table = WeakTable::default();
    let turn = || (1..=WAYS as u64).map(|n| find_again(&table, of_one_set(n))).collect::<Vec<_>>();
    assert_eq!(turn(), [const { None }; WAYS]);
    let held = turn();
    for (held, again) in held.iter().zip(turn()) {
        assert!(Arc::ptr_eq(held.as_ref().unwrap(), &again.unwrap()));
    }
}

#[test]
fn briefly_used_values_never_evict_values_in_use() {
    let table = WeakTable::default();
    let held = [1, 2, 3].map(|n| insert(&table, of_one_set(n)));
    for n in 4..10_000 {
        assert_eq!(find_again(&table, of_one_set(n)), None);
    }
    for held in held {
        assert!(Arc::ptr_eq(&held, &insert(&table, *held)));
    }
}

#[test]
fn full_set_evicts_the_least_recently_found_value() {
    let table = WeakTable::default();
    let held: Vec<_> = (1..=WAYS as u64).map(|n| insert(&table, of_one_set(n))).collect();
    assert!(Arc::ptr_eq(&held[0], &insert(&table, *held[0])));
    let newest = insert(&table, of_one_set(9));
    for (n, held) in held.iter().enumerate().filter(|(n, _)| *n != 1) {
        assert!(Arc::ptr_eq(held, &insert(&table, **held)), "{n}");
    }
    assert!(Arc::ptr_eq(&newest, &insert(&table, *newest)));
    assert!(!Arc::ptr_eq(&held[1], &insert(&table, *held[1])));
}

#[test]
fn table_of_briefly_used_values_does_not_grow() {
    let table = WeakTable::default();
    let held: Vec<_> = (0..STRIPES as u64).map(|number| insert(&table, hash(number))).collect();
    for number in 100..100_000 {
        insert(&table, hash(number));
    }
    assert_eq!(sets(&table), MIN_SETS);
    drop(held);
}

#[test]
fn table_grows_with_the_values_in_use_up_to_its_limit() {
    let (table, mut held) = (WeakTable::default(), Vec::new());
    for number in 0..4000 {
        held.push(insert(&table, hash(number)));
    }
    let is_found = |number: &u64| Arc::ptr_eq(&held[*number as usize], &insert(&table, hash(*number)));
    let found = (0..4000).filter(is_found).count();
    assert!(found > 3900, "{found}");
    let places = sets(&table) * WAYS * STRIPES;
    assert!((4000..=4 * 4000).contains(&places), "{places}");
    for number in 0..(4 * MAX_SETS * WAYS * STRIPES) as u64 {
        held.push(insert(&table, hash(number)));
    }
    assert_eq!(sets(&table), MAX_SETS);
}
