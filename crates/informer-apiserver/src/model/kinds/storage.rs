pub(crate) mod csi_driver;
pub(crate) mod csi_node;
pub(crate) mod storage_class;
pub(crate) mod volume_attachment;
pub(crate) mod volume_attributes_class;
