mod batches;
mod contract;
mod model;
mod transform;
