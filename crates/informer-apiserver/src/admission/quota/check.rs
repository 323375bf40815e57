//! ResourceQuota: checks whether a write fits into the quotas of its namespace, and computes the new usage.

use serde_json::Value;

use super::evaluator::Evaluator;
use super::scopes::all_match;
use super::{ResourceList, resource_list};
use crate::model::kinds::core::pod::resources::add;
use crate::model::quantity::Amount;

pub(crate) struct Charge<'a> {
    pub(crate) evaluator: &'a Evaluator,
    pub(crate) object: &'a Value,
    pub(crate) old: Option<&'a Value>,
    /// The write may exceed the quota, because it only updates the status of an object.
    pub(crate) unbounded: bool,
}

/// Returns the new usage of each quota that the write changes, with the quota's index. Returns an error
/// message if the write exceeds a quota.
pub(crate) fn check<'a>(
    quotas: impl Iterator<Item = &'a Value>,
    charge: &Charge<'_>,
) -> Result<Vec<(usize, ResourceList)>, String> {
    let Charge { evaluator, object, old, .. } = charge;
    let matching_quotas = matching_quotas(quotas, evaluator, object)?;
    let usage = evaluator.usage(object);
    let negative = usage.iter().filter(|(_, amount)| amount.is_negative());
    let negative: Vec<&str> = negative.map(|(name, _)| name.as_str()).collect();
    if !negative.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")));
    }
    let before = old.map(|old| (old, evaluator.usage(old)));
    let mut used = Vec::new();
    for (index, quota) in matching_quotas {
        let delta = match &before {
            Some((old, before)) if all_match(quota, evaluator, old) => difference(&usage, before),
            _ => usage.clone(),
        };
        if let Some(now) = usage_with(quota, delta, charge.unbounded)? {
            used.push((index, now));
        }
    }
    Ok(used)
}

fn matching_quotas<'a>(
    quotas: impl Iterator<Item = &'a Value>,
    evaluator: &Evaluator,
    object: &Value,
) -> Result<Vec<(usize, &'a Value)>, String> {
    let mut matching_quotas = Vec::new();
    for (index, quota) in quotas.enumerate() {
        let hard = resource_list(&quota["status"]["hard"]);
        let names: Vec<&str> =
            hard.keys().map(String::as_str).filter(|name| evaluator.counts(name)).collect();
        if names.is_empty() || !all_match(quota, evaluator, object) {
            continue;
        }
        let name = name_of(quota);
        if let Some(why) = evaluator.missing_resources(&names, object) {
            return Err(format!("failed quota: {name}: {why}"));
        }
        if names.iter().any(|name| quota["status"]["used"].get(*name).is_none()) {
            return Err(format!("status unknown for quota: {name}, resources: {}", names.join(",")));
        }
        matching_quotas.push((index, quota));
    }
    Ok(matching_quotas)
}

/// Returns the usage of a quota after adding `delta`, or `None` if adding it does not change the usage.
fn usage_with(
    quota: &Value,
    mut delta: ResourceList,
    unbounded: bool,
) -> Result<Option<ResourceList>, String> {
    delta.retain(|_, amount| !amount.is_zero());
    if delta.is_empty() {
        return Ok(None);
    }
    let [hard, before] = ["hard", "used"].map(|list| resource_list(&quota["status"][list]));
    delta.retain(|name, _| hard.contains_key(name));
    let mut used = before.clone();
    add(&mut used, &delta);
    let exceeded: Vec<&String> =
        delta.keys().filter(|name| !unbounded && used.get(*name) > hard.get(*name)).collect();
    if exceeded.is_empty() {
        return Ok((used != before).then_some(used));
    }
    let format_list = |all: &ResourceList| {
        let each = exceeded.iter().filter_map(|name| Some(format!("{name}={}", all.get(*name)?.text())));
        each.collect::<Vec<_>>().join(",")
    };
    Err(format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        name_of(quota),
        format_list(&delta),
        format_list(&before),
        format_list(&hard)
    ))
}

fn difference(usage: &ResourceList, before: &ResourceList) -> ResourceList {
    let delta = |(name, amount): (&String, &Amount)| {
        (name.clone(), amount.less(before.get(name).copied().unwrap_or(Amount::ZERO)))
    };
    usage.iter().map(delta).collect()
}

/// Returns the usage of a quota after an object was created, updated or deleted. Returns `None` if a value
/// would become negative, so that the caller must count all objects again.
pub(crate) fn usage_after_change(
    quota: &Value,
    evaluator: &Evaluator,
    (before, after): (Option<&Value>, Option<&Value>),
) -> Option<ResourceList> {
    let usage = |object: Option<&Value>| {
        let total_usage = object.filter(|object| all_match(quota, evaluator, object));
        total_usage.map(|object| evaluator.usage(object)).unwrap_or_default()
    };
    let [before, after] = [before, after].map(usage);
    let usage_after_change = |(name, held): (String, Amount)| {
        let of = |usage: &ResourceList| usage.get(&name).copied().unwrap_or(Amount::ZERO);
        let (delta, less) = (held.plus(of(&after)), of(&before));
        (delta >= less).then(|| (name, delta.less(less)))
    };
    resource_list(&quota["status"]["used"]).into_iter().map(usage_after_change).collect()
}

pub(crate) fn total_usage<'a>(
    quota: &Value,
    evaluator: &Evaluator,
    objects: impl Iterator<Item = &'a Value>,
) -> ResourceList {
    let mut used = ResourceList::new();
    objects
        .filter(|object| all_match(quota, evaluator, object))
        .for_each(|object| add(&mut used, &evaluator.usage(object)));
    used
}

fn name_of(quota: &Value) -> &str {
    quota["metadata"]["name"].as_str().unwrap_or_default()
}
