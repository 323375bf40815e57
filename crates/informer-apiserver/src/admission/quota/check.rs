//! ResourceQuota: checks whether a write fits into the quotas of its namespace, and computes the new usage.

use serde_json::Value;

use super::evaluator::Measure;
use super::pod::add;
use super::scopes::all_match;
use super::{Amounts, amounts};
use crate::model::quantity::Amount;

/// A write that is charged to quotas.
pub(crate) struct Charge<'a> {
    pub(crate) measure: &'a Measure,
    pub(crate) object: &'a Value,
    /// The object before an update.
    pub(crate) old: Option<&'a Value>,
    /// The write may exceed the quota, because it only updates a status.
    pub(crate) unbounded: bool,
}

/// Returns the new usage of each quota that changes, with its index. Returns an error message if a quota is
/// exceeded.
pub(crate) fn check(quotas: &[Value], charge: &Charge<'_>) -> Result<Vec<(usize, Amounts)>, String> {
    let Charge { measure, object, old, .. } = charge;
    let counting = counting(quotas, measure, object)?;
    let usage = measure.usage(object);
    let negative = usage.iter().filter(|(_, amount)| amount.is_negative());
    let negative: Vec<&str> = negative.map(|(name, _)| name.as_str()).collect();
    if !negative.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")));
    }
    let before = old.map(|old| (old, measure.usage(old)));
    let mut used = Vec::new();
    for place in counting {
        let quota = &quotas[place];
        let more = match &before {
            Some((old, before)) if all_match(quota, measure, old) => more_than(&usage, before),
            _ => usage.clone(),
        };
        if let Some(now) = charged(quota, more, charge.unbounded)? {
            used.push((place, now));
        }
    }
    Ok(used)
}

/// Returns the indices of the quotas that count an object.
fn counting(quotas: &[Value], measure: &Measure, object: &Value) -> Result<Vec<usize>, String> {
    let mut counting = Vec::new();
    for (place, quota) in quotas.iter().enumerate() {
        let hard = amounts(&quota["status"]["hard"]);
        let names: Vec<&str> = hard.keys().map(String::as_str).filter(|name| measure.counts(name)).collect();
        if names.is_empty() || !all_match(quota, measure, object) {
            continue;
        }
        let name = name_of(quota);
        if let Some(why) = measure.unsaid(&names, object) {
            return Err(format!("failed quota: {name}: {why}"));
        }
        if names.iter().any(|name| quota["status"]["used"].get(*name).is_none()) {
            return Err(format!("status unknown for quota: {name}, resources: {}", names.join(",")));
        }
        counting.push(place);
    }
    Ok(counting)
}

/// Returns the usage of a quota after adding `more`, or `None` if it does not change.
fn charged(quota: &Value, mut more: Amounts, unbounded: bool) -> Result<Option<Amounts>, String> {
    more.retain(|_, amount| !amount.is_zero());
    if more.is_empty() {
        return Ok(None);
    }
    let [hard, before] = ["hard", "used"].map(|list| amounts(&quota["status"][list]));
    more.retain(|name, _| hard.contains_key(name));
    let mut used = before.clone();
    add(&mut used, &more);
    let exceeded: Vec<&String> =
        more.keys().filter(|name| !unbounded && used.get(*name) > hard.get(*name)).collect();
    if exceeded.is_empty() {
        return Ok((used != before).then_some(used));
    }
    let told = |all: &Amounts| {
        let each = exceeded.iter().filter_map(|name| Some(format!("{name}={}", all.get(*name)?.text())));
        each.collect::<Vec<_>>().join(",")
    };
    Err(format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        name_of(quota),
        told(&more),
        told(&before),
        told(&hard)
    ))
}

fn more_than(usage: &Amounts, before: &Amounts) -> Amounts {
    let more = |(name, amount): (&String, &Amount)| {
        (name.clone(), amount.less(before.get(name).copied().unwrap_or(Amount::ZERO)))
    };
    usage.iter().map(more).collect()
}

/// Returns the usage of a quota after an object was created, updated or deleted, or `None` if it would become
/// negative.
pub(crate) fn moved(
    quota: &Value,
    measure: &Measure,
    (before, after): (Option<&Value>, Option<&Value>),
) -> Option<Amounts> {
    let usage = |object: Option<&Value>| {
        let counted = object.filter(|object| all_match(quota, measure, object));
        counted.map(|object| measure.usage(object)).unwrap_or_default()
    };
    let [before, after] = [before, after].map(usage);
    let moved = |(name, held): (String, Amount)| {
        let of = |usage: &Amounts| usage.get(&name).copied().unwrap_or(Amount::ZERO);
        let (more, less) = (held.plus(of(&after)), of(&before));
        (more >= less).then(|| (name, more.less(less)))
    };
    amounts(&quota["status"]["used"]).into_iter().map(moved).collect()
}

/// Computes the usage of a quota from all objects.
pub(crate) fn counted<'a>(
    quota: &Value,
    measure: &Measure,
    objects: impl Iterator<Item = &'a Value>,
) -> Amounts {
    let mut used = Amounts::new();
    objects
        .filter(|object| all_match(quota, measure, object))
        .for_each(|object| add(&mut used, &measure.usage(object)));
    used
}

fn name_of(quota: &Value) -> &str {
    quota["metadata"]["name"].as_str().unwrap_or_default()
}
