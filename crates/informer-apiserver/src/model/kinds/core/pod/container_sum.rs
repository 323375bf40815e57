//! The resources that the containers of a pod need together.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::quantity::Amount;
use crate::model::rules::warnings::list;

/// Quantities by the names of their resources.
pub(crate) type Amounts = BTreeMap<String, Amount>;

/// Returns the sum of the `requests` or `limits` of the containers of a pod. Init containers that are not
/// sidecars run one after another, alongside the sidecars that were started before.
pub(crate) fn container_sum(spec: &Value, name: &str) -> Amounts {
    let of = |container: &Value| amounts(Some(&container["resources"][name]));
    let mut sum = Amounts::new();
    list(&spec["containers"]).for_each(|container| add(&mut sum, &of(container)));
    let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
    for container in list(&spec["initContainers"]) {
        let mut needed = of(container);
        if container["restartPolicy"] == "Always" {
            add(&mut sum, &needed);
            add(&mut sidecars, &needed);
            raise(&mut most, &sidecars);
        } else {
            add(&mut needed, &sidecars);
            raise(&mut most, &needed);
        }
    }
    raise(&mut sum, &most);
    sum
}

/// Parses a map of quantities. Invalid quantities are omitted.
pub(crate) fn amounts(quantities: Option<&Value>) -> Amounts {
    let quantities = quantities.and_then(Value::as_object).into_iter().flatten();
    quantities.filter_map(|(name, text)| Some((name.clone(), Amount::read(text.as_str()?)?))).collect()
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let total = sum.get(name).map_or(*amount, |sum| sum.plus(*amount));
        sum.insert(name.clone(), total);
    }
}

/// Raises quantities to those of another map.
fn raise(least: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if least.get(name).is_none_or(|least| amount > least) {
            least.insert(name.clone(), *amount);
        }
    }
}
