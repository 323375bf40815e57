//! The path of a field in a validated object. Like Go's `field.Path`, it refers to the path of its parent, so
//! that validation allocates no memory for fields without errors.

use std::fmt;

/// The path of a field. It is formatted only for an error.
#[derive(Clone, Copy)]
pub(crate) struct FieldPath<'a> {
    parent: Option<&'a FieldPath<'a>>,
    /// The name of the field, or several names with dots. The path of the whole object has no name.
    name: &'a str,
    element: PathElement<'a>,
}

/// The element of a list or map to which a path leads.
#[derive(Clone, Copy)]
enum PathElement<'a> {
    /// The path leads to the field itself.
    None,
    Index(usize),
    Key(&'a str),
}

impl<'a> FieldPath<'a> {
    /// The path of the whole object.
    pub(crate) const ROOT: Self = Self::new("");

    pub(crate) const fn new(name: &'a str) -> Self {
        Self { parent: None, name, element: PathElement::None }
    }

    /// Returns the path of a field of this part of the object.
    pub(crate) const fn field(&'a self, name: &'a str) -> Self {
        let parent = if self.is_root() { None } else { Some(self) };
        Self { parent, name, element: PathElement::None }
    }

    /// Returns the path of an element of this part of the object, which is itself an element of a list. Paths
    /// of kube-apiserver have this form if they lack the name of the inner list.
    pub(crate) const fn element(&'a self, index: usize) -> Self {
        Self { parent: Some(self), name: "", element: PathElement::Index(index) }
    }

    /// Returns the path of an element of this list.
    pub(crate) const fn index(self, index: usize) -> Self {
        Self { element: PathElement::Index(index), ..self }
    }

    /// Returns the path of the value of a key in this map.
    pub(crate) const fn key(self, key: &'a str) -> Self {
        Self { element: PathElement::Key(key), ..self }
    }

    const fn is_root(&self) -> bool {
        self.parent.is_none() && self.name.is_empty()
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}")?;
            if !self.name.is_empty() {
                f.write_str(".")?;
            }
        }
        f.write_str(self.name)?;
        match self.element {
            PathElement::None => Ok(()),
            PathElement::Index(index) => write!(f, "[{index}]"),
            PathElement::Key(key) => write!(f, "[{key}]"),
        }
    }
}

#[cfg(test)]
mod tests;
