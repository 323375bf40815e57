//! IngressClasses.

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::defaults::Default::{Fill, In};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("networking.k8s.io", "v1", "IngressClass", Traits::GENERATION)
        .bookmark(r#","spec":{}"#)
        .rules(Rules::new(&[In("spec.parameters", &[Fill("scope", "\"Cluster\"")])], &[]));
