//! The columns of each kind.

use crate::model::kinds::Kind;

/// A column of a table or of a CRD's `additionalPrinterColumns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrinterColumn {
    pub(crate) name: String,
    pub(crate) cell_type: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    /// Custom kinds: the JSON path of the value.
    pub(crate) path: String,
}

/// The columns of built-in kinds. A `*` suffix marks columns of the wide output. A type other than string
/// follows after a `:`.
const BUILT_IN: &[(&str, &str, &str)] = &[
    ("", "ConfigMap", "Data|Age"),
    ("", "Endpoints", "Endpoints|Age"),
    ("", "Event", "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*"),
    ("", "Namespace", "Status|Age"),
    (
        "",
        "Node",
        "Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*",
    ),
    (
        "",
        "PersistentVolume",
        "Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|VolumeMode*",
    ),
    (
        "",
        "PersistentVolumeClaim",
        "Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*",
    ),
    ("", "Pod", "Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*"),
    (
        "",
        "ReplicationController",
        "Desired:integer|Current:integer|Ready:integer|Age|Containers*|Images*|Selector*",
    ),
    ("", "Secret", "Type|Data|Age"),
    ("", "Service", "Type|Cluster-IP|External-IP|Port(s)|Age|Selector*"),
    ("", "ServiceAccount", "Age"),
    (
        "apps",
        "DaemonSet",
        "Desired:integer|Current:integer|Ready:integer|Up-to-date:integer|Available:integer|Node Selector|Age|\
         Containers*|Images*|Selector*",
    ),
    ("apps", "Deployment", "Ready|Up-to-date|Available|Age|Containers*|Images*|Selector*"),
    ("apps", "ReplicaSet", "Desired:integer|Current:integer|Ready:integer|Age|Containers*|Images*|Selector*"),
    ("apps", "StatefulSet", "Ready|Age|Containers*|Images*"),
    (
        "batch",
        "CronJob",
        "Schedule|Timezone|Suspend:boolean|Active:integer|Last Schedule|Age|Containers*|Images*|Selector*",
    ),
    ("batch", "Job", "Status|Completions|Duration|Age|Containers*|Images*|Selector*"),
    ("coordination.k8s.io", "Lease", "Holder|Age"),
    ("discovery.k8s.io", "EndpointSlice", "AddressType|Ports|Endpoints|Age"),
    ("networking.k8s.io", "Ingress", "Class|Hosts|Address|Ports|Age"),
    ("policy", "PodDisruptionBudget", "Min Available|Max Unavailable|Allowed Disruptions:integer|Age"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", "Role|Age|Users*|Groups*|ServiceAccounts*"),
    ("rbac.authorization.k8s.io", "RoleBinding", "Role|Age|Users*|Groups*|ServiceAccounts*"),
    (
        "storage.k8s.io",
        "StorageClass",
        "Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
    ),
];

/// Returns the columns of a kind, starting with the name.
pub(crate) fn columns(kind: &Kind) -> Vec<PrinterColumn> {
    let mut name = column("Name");
    "name".clone_into(&mut name.format);
    let mut all = vec![name];
    match (kind.is_custom(), built_in(kind)) {
        (true, _) if kind.columns.is_empty() => all.push(typed("Age", "date")),
        (true, _) => all.extend(kind.columns.iter().cloned()),
        (false, Some(columns)) => all.extend(columns.split('|').map(read)),
        (false, None) => all.push(typed("Created At", "date")),
    }
    all
}

pub(crate) fn built_in(kind: &Kind) -> Option<&'static str> {
    BUILT_IN.iter().find(|(group, name, _)| kind.is(group, name)).map(|(_, _, columns)| *columns)
}

fn read(text: &str) -> PrinterColumn {
    let (text, priority) = text.strip_suffix('*').map_or((text, 0), |text| (text, 1));
    let (name, cell_type) = text.split_once(':').unwrap_or((text, "string"));
    PrinterColumn { priority, ..typed(name, cell_type) }
}

fn typed(name: &str, cell_type: &str) -> PrinterColumn {
    PrinterColumn { cell_type: cell_type.to_owned(), ..column(name) }
}

fn column(name: &str) -> PrinterColumn {
    PrinterColumn {
        name: name.to_owned(),
        cell_type: "string".to_owned(),
        format: String::new(),
        description: String::new(),
        priority: 0,
        path: String::new(),
    }
}
