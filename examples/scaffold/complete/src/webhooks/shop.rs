//! Sets defaults of shops and validates them.
//!
//! The API server has already validated the schema of the CRD. Prefer the schema and CEL
//! rules for everything that they can express.

use informer::webhook::{AdmissionOperation, AdmissionRequest, Allowed, Denied};

use crate::api::shop::Shop;

/// The annotation with the name of the user who created the object.
pub const CREATED_BY: &str = "shop.example.com/created-by";

/// Changes an object before it is validated and stored. The function must have the same
/// result if it is called again with its own result.
pub async fn default(request: AdmissionRequest<Shop>, mut object: Shop) -> Result<Shop, Denied> {
    if request.operation == AdmissionOperation::Create {
        let annotations = object.metadata.annotations.get_or_insert_default();
        annotations.insert(CREATED_BY.to_owned(), request.user.username);
    }
    Ok(object)
}

/// Allows or denies a creation or an update.
pub async fn validate(request: AdmissionRequest<Shop>) -> Result<Allowed, Denied> {
    // A deletion has no new object. An object that is being deleted must stay changeable, so
    // that its finalizers can be removed.
    let Some(object) = request
        .object
        .filter(|object| object.metadata.deletion_timestamp.is_none())
    else {
        return Ok(Allowed::new());
    };
    match version_of(&object.spec.image) {
        None | Some("latest") => Err(Denied::invalid(
            "spec.image: needs a digest, or a tag other than latest",
        )),
        Some(_) => Ok(Allowed::new()),
    }
}

/// Returns the digest of an image, or its tag.
fn version_of(image: &str) -> Option<&str> {
    // The host of a registry may have a port.
    let name = image.rsplit('/').next()?;
    let (_, version) = name.split_once('@').or_else(|| name.split_once(':'))?;
    Some(version)
}

#[cfg(test)]
mod tests {
    use super::version_of;

    #[test]
    fn version_is_the_digest_or_the_tag() {
        assert_eq!(version_of("registry.example.com:5000/shop"), None);
        assert_eq!(
            version_of("registry.example.com:5000/shop:1.2"),
            Some("1.2")
        );
        assert_eq!(version_of("shop:1.2@sha256:abc"), Some("sha256:abc"));
    }
}
