//! Label and field selectors. Syntax and matching follow the [Kubernetes
//! API](https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#api).

pub(crate) mod field;
pub(crate) mod label;
pub(crate) mod parse;

#[cfg(test)]
mod tests;
