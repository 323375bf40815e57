//! Built-in kinds for which `informer add controller` writes a controller.

use super::names::plural_of;

/// A built-in kind, with the content of a valid object for the tests of its controller. All kinds in the list
/// have the API version `v1`.
#[derive(Debug)]
pub(super) struct BuiltinKind {
    kind: &'static str,
    pub(super) group: &'static str,
    pub(super) namespaced: bool,
    /// The fields of the sample object after its metadata, as YAML.
    pub(super) content: &'static str,
}

/// The selector and the pod template of the sample objects of workloads, such as Deployments, as YAML.
macro_rules! pod_template {
    () => {
        r#"  selector:
    matchLabels:
      app: sample
  template:
    metadata:
      labels:
        app: sample
    spec:
      containers:
      - name: main
        image: nginx:1.29
"#
    };
}

const KINDS: [BuiltinKind; 16] = [
    BuiltinKind { kind: "ConfigMap", group: "", namespaced: true, content: "data:\n  key: value\n" },
    BuiltinKind { kind: "Secret", group: "", namespaced: true, content: "type: Opaque\n" },
    BuiltinKind { kind: "Service", group: "", namespaced: true, content: "spec:\n  ports:\n  - port: 80\n" },
    BuiltinKind { kind: "ServiceAccount", group: "", namespaced: true, content: "" },
    BuiltinKind {
        kind: "Pod",
        group: "",
        namespaced: true,
        content: r#"spec:
  containers:
  - name: main
    image: nginx:1.29
"#,
    },
    BuiltinKind {
        kind: "PersistentVolumeClaim",
        group: "",
        namespaced: true,
        content: r#"spec:
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 1Gi
"#,
    },
    BuiltinKind { kind: "Namespace", group: "", namespaced: false, content: "" },
    BuiltinKind { kind: "Node", group: "", namespaced: false, content: "" },
    BuiltinKind {
        kind: "Deployment",
        group: "apps",
        namespaced: true,
        content: concat!("spec:\n", pod_template!()),
    },
    BuiltinKind {
        kind: "StatefulSet",
        group: "apps",
        namespaced: true,
        content: concat!("spec:\n  serviceName: sample\n", pod_template!()),
    },
    BuiltinKind {
        kind: "DaemonSet",
        group: "apps",
        namespaced: true,
        content: concat!("spec:\n", pod_template!()),
    },
    BuiltinKind {
        kind: "Job",
        group: "batch",
        namespaced: true,
        content: r#"spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: nginx:1.29
"#,
    },
    BuiltinKind {
        kind: "CronJob",
        group: "batch",
        namespaced: true,
        content: r#"spec:
  schedule: "0 0 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
          - name: main
            image: nginx:1.29
"#,
    },
    BuiltinKind {
        kind: "Ingress",
        group: "networking.k8s.io",
        namespaced: true,
        content: r#"spec:
  defaultBackend:
    service:
      name: sample
      port:
        number: 80
"#,
    },
    BuiltinKind {
        kind: "NetworkPolicy",
        group: "networking.k8s.io",
        namespaced: true,
        content: "spec:\n  podSelector: {}\n",
    },
    BuiltinKind { kind: "Lease", group: "coordination.k8s.io", namespaced: true, content: "" },
];

impl BuiltinKind {
    pub(super) fn find(kind: &str) -> Option<&'static Self> {
        KINDS.iter().find(|builtin| builtin.kind == kind)
    }

    /// Returns the names of all kinds in the list, separated by commas, for an error message.
    pub(super) fn names() -> String {
        KINDS.map(|builtin| builtin.kind).join(", ")
    }

    pub(super) fn plural(&self) -> String {
        plural_of(&self.kind.to_ascii_lowercase())
    }

    pub(super) fn api_version(&self) -> String {
        match self.group {
            "" => "v1".to_owned(),
            group => format!("{group}/v1"),
        }
    }

    /// Returns the path of the module in the crate `k8s_openapi` that contains the type of the kind.
    pub(super) fn rust_module(&self) -> String {
        let group = self.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
        format!("api::{group}::v1")
    }
}
