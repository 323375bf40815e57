use std::sync::Arc;

use super::{PLACES_MAX, PLACES_MIN, STRIPES, Table};

fn insert(table: &Table<u64>, hash: u64) -> Arc<u64> {
    table.find_or_insert(hash, |value| *value == hash, || hash)
}

fn places<T>(table: &Table<T>) -> usize {
    table.stripes.iter().map(|stripe| stripe.lock().places.len()).max().unwrap()
}

#[test]
fn what_is_in_use_is_found_and_what_is_not_is_made_anew() {
    let table = Table::default();
    let one = insert(&table, 7);
    assert!(Arc::ptr_eq(&one, &insert(&table, 7)));
    let weak = Arc::downgrade(&one);
    drop(one);
    assert_eq!(weak.strong_count(), 0, "the table keeps it alive");
    assert_eq!(*insert(&table, 7), 7);
}

#[test]
fn two_values_of_one_hash_are_not_taken_for_each_other() {
    let table = Table::default();
    let one = table.find_or_insert(7, |value| *value == 'a', || 'a');
    let other = table.find_or_insert(7, |value| *value == 'b', || 'b');
    assert_eq!((*one, *other), ('a', 'b'));
    let again = table.find_or_insert_again(7, |value| *value == 'a', || 'a');
    assert_eq!(again.as_deref(), Some(&'a'));
}

#[test]
fn what_is_to_be_seen_again_is_not_made_the_first_time() {
    let table = Table::default();
    let find = |hash: u64| table.find_or_insert_again(hash, |value| *value == hash, || hash);
    assert_eq!(find(9), None);
    let second = find(9).unwrap();
    assert!(Arc::ptr_eq(&second, &find(9).unwrap()));
}

#[test]
fn a_table_of_what_passes_by_stays_small() {
    let table = Table::default();
    for hash in 0..100_000_u64 {
        insert(&table, hash.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    assert_eq!(places(&table), PLACES_MIN);
}

#[test]
fn a_table_grows_with_what_is_in_use_up_to_its_limit() {
    let (table, mut held) = (Table::default(), Vec::new());
    let hash = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for number in 0..4000 {
        held.push(insert(&table, hash(number)));
    }
    let found =
        (0..4000).filter(|number| Arc::ptr_eq(&held[*number as usize], &insert(&table, hash(*number))));
    assert!(found.count() > 2000);
    assert!(places(&table) < 2000, "{}", places(&table));
    for number in 0..(4 * PLACES_MAX * STRIPES) as u64 {
        held.push(insert(&table, hash(number)));
    }
    assert_eq!(places(&table), PLACES_MAX);
}
