mod lifecycle;
mod lists;
mod resumed;
mod sequences;
mod streaming;
mod truth;
mod watches;
mod world;
