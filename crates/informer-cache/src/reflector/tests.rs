mod lifecycle;
mod lists;
mod sequences;
mod streaming;
mod truth;
mod watches;
mod world;
