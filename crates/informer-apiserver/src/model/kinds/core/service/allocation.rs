//! Allocation of cluster IPs and node ports for Services.

use std::collections::{HashMap, HashSet};

use rand::RngExt;
use serde_json::{Map, Value, json};

use crate::model::cause::Cause;
use crate::model::kinds::core::service::addresses;
use crate::model::write_options::WriteMode;

type Object = Map<String, Value>;

/// Cluster IPs come from `10.0.0.0/24`, as in envtest. The first addresses of this range are only given to
/// Services that request them.
const NETWORK: &str = "10.0.0.";
const HOSTS: std::ops::RangeInclusive<u8> = 1..=254;
const DYNAMIC_HOSTS: std::ops::RangeInclusive<u8> = 16..=254;
/// The range of node ports, as in kube-apiserver.
const PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// The lowest node port for dynamic allocation. Lower ports are used only if no other port is free.
const MIN_DYNAMIC_PORT: i64 = 30_086;

/// The cluster IPs and node ports in use, each with the Service that has it.
#[derive(Default)]
pub(crate) struct UsedAddresses {
    /// The key of the Service that uses a cluster IP.
    addresses: HashMap<String, String>,
    /// The key of the Service that uses a node port.
    ports: HashMap<i64, String>,
}

impl UsedAddresses {
    /// Records the cluster IPs and the node ports of a stored Service as used.
    pub(crate) fn note(&mut self, service: &Value) {
        let (service_key, spec) = (key_of(service), &service["spec"]);
        let addresses = addresses::cluster_ips(spec).into_iter().filter(|address| *address != "None");
        self.addresses.extend(addresses.map(|address| (address.to_owned(), service_key.clone())));
        self.ports.extend(used_node_ports(spec).map(|port| (port, service_key.clone())));
    }

    /// Returns true if another Service than `own` has the cluster IP.
    fn has_address(&self, address: &str, own: &str) -> bool {
        self.addresses.get(address).is_some_and(|user| user != own)
    }

    fn ports(&self, own: &str) -> HashSet<i64> {
        self.ports.iter().filter(|(_, user)| *user != own).map(|(port, _)| *port).collect()
    }
}

fn key_of(service: &Value) -> String {
    let text = |name: &str| service["metadata"][name].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

/// Allocates the cluster IP and the node ports that a Service requests, or free ones if it requests none.
/// `old` is the stored Service that an update replaces.
pub(crate) fn allocate_service(
    taken: &UsedAddresses,
    object: &mut Object,
    old: Option<&Object>,
    mode: WriteMode,
    dry_run: bool,
) -> Result<(), Vec<Cause>> {
    let mut service = Value::Object(std::mem::take(object));
    let old = old.map(|old| Value::Object(old.clone()));
    let refused = allocate(&mut service, old.as_ref(), taken, mode, dry_run);
    if let Value::Object(allocated) = service {
        *object = allocated;
    }
    refused
}

/// Copies allocated fields from the stored Service if an update omits them, and removes fields that the new
/// type does not use. Must be called before the update is validated.
pub(crate) fn preserve_allocations(old: &Object, object: &mut Object, mode: WriteMode) {
    let (Some(old), Some(spec)) = (old.get("spec"), object.get_mut("spec")) else { return };
    preserve_addresses(old, spec);
    preserve_node_ports(old, spec);
    remove_type_dependent_fields(old, spec);
    if mode == WriteMode::Main
        && !is_load_balancer(spec)
        && let Some(status) = object.get_mut("status").and_then(Value::as_object_mut)
    {
        status.insert("loadBalancer".to_owned(), json!({}));
    }
}

/// Returns true if a Service uses a field.
type FieldUse = fn(&Value) -> bool;

/// Removes the fields that the old Service uses and the new one does not, unless the client changed them.
fn remove_type_dependent_fields(old: &Value, spec: &mut Value) {
    let users: [(&str, FieldUse); 4] = [
        ("externalTrafficPolicy", is_reachable),
        ("healthCheckNodePort", has_health_check),
        ("allocateLoadBalancerNodePorts", is_load_balancer),
        ("loadBalancerClass", is_load_balancer),
    ];
    let is_unused = |name: &str, is_used: FieldUse| is_used(old) && !is_used(spec) && old[name] == spec[name];
    let unused = users.map(|(name, is_used)| is_unused(name, is_used).then_some(name));
    if let Some(spec) = spec.as_object_mut() {
        unused.into_iter().flatten().for_each(|name| drop(spec.remove(name)));
    }
}

fn is_load_balancer(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer"
}

/// Returns true if the load balancer checks the health of the nodes.
pub(super) fn has_health_check(spec: &Value) -> bool {
    is_load_balancer(spec) && spec["externalTrafficPolicy"] == "Local"
}

/// Copies the node ports that an update omits to the ports with the same name. Releases them if the type is
/// no longer NodePort or LoadBalancer and the client added none.
fn preserve_node_ports(old: &Value, spec: &mut Value) {
    let requested = node_ports(spec);
    if allocates_node_ports(old) && allocates_node_ports(spec) {
        let by_name: HashMap<&str, i64> =
            ports(old).filter_map(|port| Some((name_of(port), node_port(port)?))).collect();
        for port in ports_mut(spec) {
            let before = by_name.get(name_of(port)).filter(|number| !requested.contains(number));
            if let Some(number) = before.filter(|_| node_port(port).is_none()) {
                port["nodePort"] = (*number).into();
            }
        }
    } else if has_node_ports(old) && !has_node_ports(spec) && node_ports(old).is_superset(&requested) {
        ports_mut(spec).filter_map(Value::as_object_mut).for_each(|port| drop(port.remove("nodePort")));
    }
}

fn has_node_ports(spec: &Value) -> bool {
    matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"))
}

/// Returns true if the ports of a Service get node ports that the client does not request.
fn allocates_node_ports(spec: &Value) -> bool {
    has_node_ports(spec) && (spec["type"] == "NodePort" || spec["allocateLoadBalancerNodePorts"] != false)
}

fn ports(spec: &Value) -> impl Iterator<Item = &Value> {
    spec["ports"].as_array().into_iter().flatten()
}

fn ports_mut(spec: &mut Value) -> impl Iterator<Item = &mut Value> {
    spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten()
}

fn node_port(port: &Value) -> Option<i64> {
    port["nodePort"].as_i64().filter(|number| *number != 0)
}

fn node_ports(spec: &Value) -> HashSet<i64> {
    ports(spec).filter_map(node_port).collect()
}

/// Returns the node ports of a Service that allocates them. Other types, such as ExternalName, can have node
/// ports, but do not reserve them.
fn used_node_ports(spec: &Value) -> impl Iterator<Item = i64> {
    ports(spec).filter(|_| has_node_ports(spec)).filter_map(node_port)
}

fn name_of(port: &Value) -> &str {
    port["name"].as_str().unwrap_or_default()
}

/// Copies cluster IPs and IP families, and removes those that the new type or family policy does not allow.
fn preserve_addresses(old: &Value, spec: &mut Value) {
    let named = |spec: &Value| spec["type"] == "ExternalName";
    if !named(old) && !named(spec) {
        for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if is_unset(&spec[name]) && !old[name].is_null() {
                spec[name] = old[name].clone();
            }
        }
    }
    normalize_cluster_ips(old, spec);
    if !named(old) && !named(spec) {
        // The policy `SingleStack` releases the secondary element of a list that the client did not change.
        let is_single = spec["ipFamilyPolicy"] == "SingleStack";
        for name in ["clusterIPs", "ipFamilies"].into_iter().filter(|_| is_single) {
            if old[name] == spec[name]
                && let Some(list) = spec.get_mut(name).and_then(Value::as_array_mut)
            {
                list.truncate(1);
            }
        }
    } else if !named(old) {
        let is_same = |names: &[&str]| names.iter().all(|name| old[*name] == spec[*name]);
        let groups: [&[&str]; 3] = [&["clusterIP", "clusterIPs"], &["ipFamilies"], &["ipFamilyPolicy"]];
        let removed: Vec<&str> =
            groups.into_iter().filter(|names| is_same(names)).flatten().copied().collect();
        if let Some(spec) = spec.as_object_mut() {
            removed.iter().for_each(|name| drop(spec.remove(*name)));
        }
    }
}

/// Derives `clusterIPs` from `clusterIP` if the client changed only `clusterIP`.
fn normalize_cluster_ips(old: &Value, spec: &mut Value) {
    let is_same_address =
        old["clusterIP"].as_str().unwrap_or_default() == spec["clusterIP"].as_str().unwrap_or_default();
    if is_same_address {
        if is_unset(&spec["clusterIPs"]) && !is_unset(&old["clusterIPs"]) {
            spec["clusterIPs"] = old["clusterIPs"].clone();
        }
    } else if addresses::strings(&old["clusterIPs"]) == addresses::strings(&spec["clusterIPs"]) {
        if !is_unset(&spec["clusterIP"]) {
            spec["clusterIPs"] = json!([spec["clusterIP"]]);
        } else if let Some(spec) = spec.as_object_mut() {
            spec.remove("clusterIPs");
        }
    }
}

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// Returns true if clients outside of the cluster can reach the Service.
pub(crate) fn is_reachable(spec: &Value) -> bool {
    match spec["type"].as_str() {
        Some("NodePort" | "LoadBalancer") => true,
        Some("ClusterIP") => spec["externalIPs"].as_array().is_some_and(|all| !all.is_empty()),
        _ => false,
    }
}

fn allocate(
    service: &mut Value,
    old: Option<&Value>,
    taken: &UsedAddresses,
    mode: WriteMode,
    dry_run: bool,
) -> Result<(), Vec<Cause>> {
    let own = key_of(service);
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
    // Manifests that the embedding program loads may come from clusters with other IP families.
    let causes = addresses::family_causes(spec, old.map(|old| &old["spec"]));
    if !mode.is_of_program() && !causes.is_empty() {
        return Err(causes);
    }
    let kept = old.map(|old| addresses::cluster_ips(&old["spec"])).unwrap_or_default();
    for address in addresses::cluster_ips(spec) {
        let is_new = address != "None" && !kept.contains(&address);
        if is_new && is_taken(address, taken, &own, mode).map_err(|cause| vec![cause])? {
            let why = format!("failed to allocate IP {address}: provided IP is already allocated");
            return Err(vec![Cause::invalid("spec.clusterIPs", &format!("[{address:?}]"), &why)]);
        }
    }
    let address = match spec["clusterIP"].as_str().unwrap_or_default() {
        "" => pick_address(taken).map_err(|cause| vec![cause])?,
        requested => requested.to_owned(),
    };
    if spec["clusterIPs"][0] != address {
        spec["clusterIPs"] = json!([address]);
    }
    spec["clusterIP"] = address.into();
    fill_families(spec);
    allocate_ports(spec, old, taken.ports(&own), mode, dry_run).map_err(|cause| vec![cause])
}

/// Sets the IP families and the family policy of a Service that omits them. The families are those of the
/// cluster IPs.
fn fill_families(spec: &mut Value) {
    let mut families: Vec<String> =
        addresses::strings(&spec["ipFamilies"]).into_iter().map(str::to_owned).collect();
    let addresses = addresses::cluster_ips(spec);
    let missing = addresses.iter().skip(families.len()).take_while(|address| **address != "None");
    families.extend(missing.map(|address| addresses::family_of(address).to_owned()));
    if families.is_empty() {
        families.push("IPv4".to_owned());
    }
    // A Service that the embedding program loads can have two families without a policy. With `SingleStack`
    // the next update would release the secondary one.
    let policy = match spec["ipFamilyPolicy"].as_str() {
        None if families.len() > 1 => "RequireDualStack".to_owned(),
        _ => addresses::family_policy(spec).to_owned(),
    };
    if addresses::is_headless(spec)
        && !addresses::has_selector(spec)
        && policy != "SingleStack"
        && families.len() == 1
    {
        families.push(if families[0] == "IPv4" { "IPv6" } else { "IPv4" }.to_owned());
    }
    spec["ipFamilyPolicy"] = policy.into();
    spec["ipFamilies"] = families.into();
}

fn is_taken(address: &str, taken: &UsedAddresses, own: &str, mode: WriteMode) -> Result<bool, Cause> {
    // Manifests that the embedding program loads may come from clusters with another service network, so any
    // cluster IP is accepted.
    if mode.is_of_program() {
        return Ok(taken.has_address(address, own));
    }
    let host = address.strip_prefix(NETWORK).and_then(|host| host.parse::<u8>().ok());
    match host.filter(|host| HOSTS.contains(host)) {
        Some(_) => Ok(taken.has_address(address, own)),
        None => {
            let why = format!(
                "failed to allocate IP {address}: the provided network does not match the current range"
            );
            Err(Cause::invalid("spec.clusterIPs", &format!("[{address:?}]"), &why))
        }
    }
}

fn pick_address(taken: &UsedAddresses) -> Result<String, Cause> {
    let free: Vec<String> = DYNAMIC_HOSTS
        .map(|host| format!("{NETWORK}{host}"))
        .filter(|a| !taken.addresses.contains_key(a))
        .collect();
    let full = || {
        let why = "failed to allocate a serviceIP: range is full";
        Cause::invalid("spec.clusterIPs", "[]", why)
    };
    match free.len() {
        0 => Err(full()),
        count => Ok(free[rand::rng().random_range(0..count)].clone()),
    }
}

/// Allocates the node ports. As in kube-apiserver, a dry run does not check whether requested node ports are
/// in the range.
fn allocate_ports(
    spec: &mut Value,
    old: Option<&Value>,
    mut used: HashSet<i64>,
    mode: WriteMode,
    dry_run: bool,
) -> Result<(), Cause> {
    if !has_node_ports(spec) {
        return Ok(());
    }
    let allocates = allocates_node_ports(spec);
    // kube-apiserver tracks node ports per port number on create, and per node port on update. So an update
    // can use a node port for several ports. A new Service can only use it for several protocols of one port.
    // Services that the embedding program loads may have been updated before, and may come from clusters with
    // another range of node ports.
    let can_share = old.is_some() || mode.is_of_program();
    let checks_range = !dry_run && !mode.is_of_program();
    let mut own: HashSet<i64> = old.into_iter().flat_map(|old| used_node_ports(&old["spec"])).collect();
    let mut by_port = if old.is_none() { requested_by_port(spec) } else { HashMap::new() };
    let mut seen = HashSet::new();
    let mut unavailable: HashSet<i64> = used.union(&node_ports(spec)).copied().collect();
    for (index, port) in ports_mut(spec).enumerate() {
        let number = port["port"].as_i64().unwrap_or_default();
        let of_port = by_port.get(&number).copied();
        let allocated = match node_port(port).or(of_port.filter(|_| allocates)) {
            Some(requested) => {
                let is_known = if can_share {
                    own.contains(&requested)
                } else {
                    seen.contains(&number) && of_port == Some(requested)
                };
                if !is_known {
                    check_requested_port(index, requested, &used, checks_range)?;
                }
                own.insert(requested);
                requested
            }
            None if !allocates => continue,
            None => pick_port(&unavailable).ok_or_else(|| {
                let field = format!("spec.ports[{index}].nodePort");
                Cause::invalid(&field, "0", "failed to allocate a nodePort: range is full")
            })?,
        };
        port["nodePort"] = allocated.into();
        used.insert(allocated);
        unavailable.insert(allocated);
        seen.insert(number);
        if old.is_none() {
            by_port.entry(number).or_insert(allocated);
        }
    }
    Ok(())
}

/// Returns the first requested node port of each port number. A new Service uses it for all protocols of the
/// number.
fn requested_by_port(spec: &Value) -> HashMap<i64, i64> {
    let mut by_port = HashMap::new();
    for port in ports(spec) {
        if let (Some(number), Some(requested)) = (port["port"].as_i64(), node_port(port)) {
            by_port.entry(number).or_insert(requested);
        }
    }
    by_port
}

fn pick_port(used: &HashSet<i64>) -> Option<i64> {
    let free: Vec<i64> = PORTS.filter(|number| !used.contains(number)).collect();
    let dynamic = free.partition_point(|number| *number < MIN_DYNAMIC_PORT);
    let free = if dynamic < free.len() { &free[dynamic..] } else { &free[..] };
    free.get(rand::rng().random_range(0..free.len().max(1))).copied()
}

fn check_requested_port(
    index: usize,
    number: i64,
    used: &HashSet<i64>,
    checks_range: bool,
) -> Result<(), Cause> {
    let why = match (!checks_range || PORTS.contains(&number), used.contains(&number)) {
        (false, _) => "provided port is not in the valid range. The range of valid ports is 30000-32767",
        (true, true) => "provided port is already allocated",
        (true, false) => return Ok(()),
    };
    Err(Cause::invalid(&format!("spec.ports[{index}].nodePort"), &number.to_string(), why))
}

#[cfg(test)]
mod tests;
