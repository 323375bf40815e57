//! Validation of the fields of Jobs that belong to the completion mode `Indexed`.

use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::{FieldView, not_negative, required};

/// The limits of kube-apiserver for indexed Jobs. They bound the lists of indexes in the status.
const MAX_PARALLELISM: i64 = 100_000;
const MAX_FAILED_INDEXES: i64 = 100_000;
/// The number of completions above which the next two limits apply.
const MANY_COMPLETIONS: i64 = 100_000;
const MAX_PARALLELISM_OF_MANY: i64 = 10_000;
const MAX_FAILED_INDEXES_OF_MANY: i64 = 10_000;

fn is_indexed(spec: &FieldView<'_, '_>) -> bool {
    spec.text("completionMode") == "Indexed"
}

/// Validates the limits of an indexed Job. Other Jobs cannot have limits for each index.
pub(super) fn check_limits(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let invalid =
        |name: &str, number: i64, why: &str| Cause::invalid(&spec.field_path(name), &number.to_string(), why);
    if is_indexed(spec) {
        return check_indexed(spec, causes);
    }
    if matches!(spec.text("completionMode"), "" | "NonIndexed") {
        for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            let given = spec.number(name);
            causes.extend(given.map(|number| invalid(name, number, "requires indexed completion mode")));
        }
    }
}

fn check_indexed(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let mut check_most = |name: &str, most: i64, why: &str| {
        if let Some(number) = spec.number(name).filter(|number| *number > most) {
            causes.push(Cause::invalid(&spec.field_path(name), &number.to_string(), why));
        }
    };
    check_most(
        "parallelism",
        MAX_PARALLELISM,
        "must be less than or equal to 100000 when completion mode is Indexed",
    );
    if let Some(completions) = spec.number("completions") {
        check_most("maxFailedIndexes", completions, "must be less than or equal to completions");
    }
    check_most("maxFailedIndexes", MAX_FAILED_INDEXES, "must be less than or equal to 100000");
    let is_large = spec.number("completions").is_some_and(|completions| completions > MANY_COMPLETIONS);
    if !is_large || spec.get("backoffLimitPerIndex").is_none() {
        return;
    }
    let why = "must be less than or equal to 10000 when completions are above 100000 and used with backoff \
               limit per index";
    check_most("parallelism", MAX_PARALLELISM_OF_MANY, why);
    check_most("maxFailedIndexes", MAX_FAILED_INDEXES_OF_MANY, why);
    if spec.get("maxFailedIndexes").is_none() {
        let why = "must be specified when completions is above 100000";
        causes.push(required(&spec.field_path("maxFailedIndexes"), why));
    }
}

/// The limits of kube-apiserver for the rules of a `successPolicy`.
const MAX_RULES: usize = 20;
const MAX_INDEXES_BYTES: usize = 64 << 10;

pub(super) fn check_success_policy(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let at = spec.part("successPolicy");
    if at.value.is_null() {
        return;
    }
    if !is_indexed(spec) {
        let why = "requires indexed completion mode";
        return causes.push(Cause::invalid(&at.path, &at.value.to_string(), why));
    }
    // A missing number is reported for `completions`.
    let Some(completions) = spec.number("completions") else { return };
    let (field, rules) = (at.field_path("rules"), at.items("rules").len());
    if rules == 0 {
        let why = "at least one rules must be specified when the successPolicy is specified";
        causes.push(required(&field, why));
    } else if rules > MAX_RULES {
        causes.push(Cause::too_many(&field, rules, MAX_RULES));
    }
    at.elements("rules").take(MAX_RULES).for_each(|rule| check_rule(&rule, completions, causes));
}

fn check_rule(at: &FieldView<'_, '_>, completions: i64, causes: &mut Causes) {
    let has_indexes = at.get("succeededIndexes").is_some();
    if !has_indexes && at.get("succeededCount").is_none() {
        let why = "at least one of succeededCount or succeededIndexes must be specified";
        causes.push(required(&at.path, why));
    }
    let mut total = 0;
    if has_indexes {
        let (field, text) = (at.field_path("succeededIndexes"), at.text("succeededIndexes"));
        if text.len() > MAX_INDEXES_BYTES {
            causes.push(Cause::too_long(&field, MAX_INDEXES_BYTES));
        }
        match count_indexes(text, completions) {
            Ok(count) => total = count,
            Err(why) => {
                let why = format!("error parsing succeededIndexes: {why}");
                causes.push(Cause::invalid(&field, &format!("{text:?}"), &why));
            }
        }
    }
    not_negative(at, &["succeededCount"], causes);
    let Some(count) = at.number("succeededCount") else { return };
    let limits = [
        (Some(completions), "specified completions"),
        (has_indexes.then_some(total), "indexes in the specified succeededIndexes field"),
    ];
    for (most, what) in limits {
        if let Some(most) = most.filter(|most| count > *most) {
            let why = format!("must be less than or equal to {most} (the number of {what})");
            causes.push(Cause::invalid(&at.field_path("succeededCount"), &count.to_string(), &why));
        }
    }
}

/// Returns the number of indexes in a list of increasing indexes and intervals such as `1,3-5`.
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut last, mut total) = (None, 0);
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let (start, end) = parse_interval(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= start) {
            return Err(format!("non-increasing order, previous: {last}, current: {start}"));
        }
        total += end - start + 1;
        last = Some(end);
    }
    Ok(total)
}

fn parse_interval(interval: &str, completions: i64) -> Result<(i64, i64), String> {
    let parse = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {text:?}")),
        Ok(index) if index >= completions => Err(format!("too large index: {text:?}")),
        Ok(index) => Ok(index),
    };
    match *interval.split('-').collect::<Vec<_>>() {
        [only] => parse(only).map(|index| (index, index)),
        [start, end] => match (parse(start)?, parse(end)?) {
            (start, end) if start >= end => {
                Err(format!("non-increasing order, previous: {start}, current: {end}"))
            }
            bounds => Ok(bounds),
        },
        _ => Err(format!(
            "the fragment {interval:?} violates the requirement that an index interval can have at most two parts \
             separated by '-'"
        )),
    }
}
