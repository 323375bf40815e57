//! Indexed, concurrently readable object stores with one writer.
