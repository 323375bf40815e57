//! The addresses and node ports of services.

use std::collections::HashSet;

use informer_core::Gvr;
use rand::RngExt;
use serde_json::{Map, Value, json};

use crate::error::{ApiError, Cause};
use crate::kinds::Kind;
use crate::server::{Shared, parse};

type Object = Map<String, Value>;

/// Services get addresses of `10.0.0.0/24`, as envtest's do; the first ones are left to those who ask for them.
const NETWORK: &str = "10.0.0.";
const HOSTS: std::ops::RangeInclusive<u8> = 1..=254;
const HOSTS_DRAWN: std::ops::RangeInclusive<u8> = 16..=254;
/// Node ports, as upstream.
const PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// Those below are drawn last.
const PORTS_DRAWN_MIN: i64 = 30_086;

/// What other services have.
#[derive(Default)]
struct Taken {
    addresses: HashSet<String>,
    ports: HashSet<i64>,
}

impl Shared {
    /// Gives a service what it asks for, or what is free. `old` is the service before it.
    pub(crate) fn allocate(
        &self,
        kind: &Kind,
        object: &mut Object,
        old: Option<&Object>,
    ) -> Result<(), ApiError> {
        if !kind.is("", "Service") {
            return Ok(());
        }
        let mut service = Value::Object(std::mem::take(object));
        let name = service["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let old = old.map(|old| Value::Object(old.clone()));
        let taken = self.taken(&service);
        let refused = allocate(&mut service, old.as_ref(), &taken);
        if let Value::Object(allocated) = service {
            *object = allocated;
        }
        refused.map_err(|cause| ApiError::invalid(kind, &name, cause))
    }

    fn taken(&self, own: &Value) -> Taken {
        let Ok(services) = self.resource(&Gvr::new("", "v1", "services")) else { return Taken::default() };
        let live = self.storage.read().live(services.table);
        let mut taken = Taken::default();
        for stored in live.iter() {
            let other = parse(stored.as_slice());
            let same = |name: &str| other["metadata"][name] == own["metadata"][name];
            if same("name") && same("namespace") {
                continue;
            }
            taken.addresses.extend(other["spec"]["clusterIP"].as_str().map(str::to_owned));
            let ports = other["spec"]["ports"].as_array().into_iter().flatten();
            taken.ports.extend(ports.filter_map(|port| port["nodePort"].as_i64()));
        }
        taken
    }
}

/// What an update leaves out stays as it was; called before the update is checked.
pub(crate) fn keep_allocated(kind: &Kind, old: &Object, object: &mut Object) {
    if !kind.is("", "Service") {
        return;
    }
    let (Some(old), Some(spec)) = (old.get("spec"), object.get_mut("spec")) else { return };
    let named = |spec: &Value| spec["type"] == "ExternalName";
    let unset = |value: &Value| value.as_str().is_none_or(str::is_empty);
    if !named(old) && !named(spec) {
        for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if (spec[name].is_null() || (name == "clusterIP" && unset(&spec[name]))) && !old[name].is_null() {
                spec[name] = old[name].clone();
            }
        }
    }
    let outside = |spec: &Value| matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"));
    let known = old["ports"].as_array().cloned().unwrap_or_default();
    let (needs, had) = (outside(spec), outside(old));
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        let same = |other: &&Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
        let before = known.iter().find(same).map(|other| other["nodePort"].clone()).unwrap_or_default();
        if needs && had && port["nodePort"].is_null() && !before.is_null() {
            port["nodePort"] = before;
        } else if !needs && had && port["nodePort"] == before {
            // A service that is no longer seen from outside gives its ports back.
            if let Some(port) = port.as_object_mut() {
                port.remove("nodePort");
            }
        }
    }
    let balancer = |spec: &Value| spec["type"] == "LoadBalancer";
    let allocates = "allocateLoadBalancerNodePorts";
    let ends = balancer(old) && !balancer(spec) && old[allocates] == spec[allocates];
    let gone = [(had && !needs, "externalTrafficPolicy"), (ends, allocates)];
    if let Some(spec) = spec.as_object_mut() {
        gone.iter().filter(|(goes, _)| *goes).for_each(|(_, name)| drop(spec.remove(*name)));
    }
}

fn allocate(service: &mut Value, old: Option<&Value>, taken: &Taken) -> Result<(), Cause> {
    let spec = &mut service["spec"];
    if spec["type"] == "ExternalName" {
        if let Some(spec) = spec.as_object_mut() {
            for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
                if name != "internalTrafficPolicy" || old.is_some() {
                    spec.remove(name);
                }
            }
        }
        return Ok(());
    }
    let kept = old.is_some_and(|old| old["spec"]["clusterIP"] == spec["clusterIP"]);
    let asked = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
    let address = match asked.as_str() {
        "" => draw_address(taken)?,
        "None" => asked,
        address if kept || !is_taken(address, taken)? => asked,
        address => {
            let why = "failed to allocate IP ".to_owned() + address + ": provided IP is already allocated";
            return Err(Cause::invalid("spec.clusterIPs", &format!("[{address:?}]"), &why));
        }
    };
    let headless = address == "None";
    spec["clusterIPs"] = json!([address]);
    spec["clusterIP"] = address.into();
    let selects = spec["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    let both = headless && !selects;
    let (policy, families) =
        if both { ("RequireDualStack", json!(["IPv4", "IPv6"])) } else { ("SingleStack", json!(["IPv4"])) };
    for (name, value) in [("ipFamilyPolicy", policy.into()), ("ipFamilies", families)] {
        if spec[name].is_null() {
            spec[name] = value;
        }
    }
    allocate_ports(spec, old, taken)
}

fn is_taken(address: &str, taken: &Taken) -> Result<bool, Cause> {
    let host = address.strip_prefix(NETWORK).and_then(|host| host.parse::<u8>().ok());
    match host.filter(|host| HOSTS.contains(host)) {
        Some(_) => Ok(taken.addresses.contains(address)),
        None => {
            let why = format!(
                "failed to allocate IP {address}: the provided network does not match the current range"
            );
            Err(Cause::invalid("spec.clusterIPs", &format!("[{address:?}]"), &why))
        }
    }
}

fn draw_address(taken: &Taken) -> Result<String, Cause> {
    let free: Vec<String> =
        HOSTS_DRAWN.map(|host| format!("{NETWORK}{host}")).filter(|a| !taken.addresses.contains(a)).collect();
    let full = || {
        let why = "failed to allocate a serviceIP: range is full";
        Cause::invalid("spec.clusterIPs", "[]", why)
    };
    match free.len() {
        0 => Err(full()),
        count => Ok(free[rand::rng().random_range(0..count)].clone()),
    }
}

fn allocate_ports(spec: &mut Value, old: Option<&Value>, taken: &Taken) -> Result<(), Cause> {
    if !matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
        return Ok(());
    }
    let known: HashSet<i64> = old
        .and_then(|old| old["spec"]["ports"].as_array())
        .into_iter()
        .flatten()
        .filter_map(|port| port["nodePort"].as_i64())
        .collect();
    // A balancer may do without ports of nodes; those that somebody names are taken all the same.
    let allocates = spec["type"] == "NodePort" || spec["allocateLoadBalancerNodePorts"] != false;
    let mut used = taken.ports.clone();
    for (index, port) in spec["ports"].as_array_mut().into_iter().flatten().enumerate() {
        match port["nodePort"].as_i64().filter(|number| *number != 0) {
            Some(number) if known.contains(&number) => {}
            Some(number) => check_asked(index, number, &used)?,
            None if !allocates => {}
            None => {
                let Some(number) = draw_port(&used) else {
                    let field = format!("spec.ports[{index}].nodePort");
                    return Err(Cause::invalid(&field, "0", "failed to allocate a nodePort: range is full"));
                };
                port["nodePort"] = number.into();
            }
        }
        used.extend(port["nodePort"].as_i64());
    }
    Ok(())
}

/// A port for who names none: of those that are left to names only where there is no other.
fn draw_port(used: &HashSet<i64>) -> Option<i64> {
    let free: Vec<i64> = PORTS.filter(|number| !used.contains(number)).collect();
    let drawn = free.partition_point(|number| *number < PORTS_DRAWN_MIN);
    let free = if drawn < free.len() { &free[drawn..] } else { &free[..] };
    free.get(rand::rng().random_range(0..free.len().max(1))).copied()
}

fn check_asked(index: usize, number: i64, used: &HashSet<i64>) -> Result<(), Cause> {
    let why = match (PORTS.contains(&number), used.contains(&number)) {
        (false, _) => "provided port is not in the valid range. The range of valid ports is 30000-32767",
        (true, true) => "provided port is already allocated",
        (true, false) => return Ok(()),
    };
    Err(Cause::invalid(&format!("spec.ports[{index}].nodePort"), &number.to_string(), why))
}

#[cfg(test)]
mod tests;
