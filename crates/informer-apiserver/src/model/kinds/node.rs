pub(crate) mod runtime_class;
