//! Keys, objects, versions and selectors of the informer crates.
