//! State machines without input and output, for simulators. No stability promise.
//!
//! A minor version may change or remove any item of this module. Programs use [`SharedInformer`], or
//! [`Reflector`], [`InOrderQueue`] and [`InformerController`], which drive these state machines.
//!
//! | part of an informer | state machine |
//! |---|---|
//! | reflector: when to list, watch, wait and check | [`ReflectorState`] |
//! | queue between the reflector and the pump | [`InOrderState`] |
//! | writer of the store | [`Pump`] |
//! | distribution of events, resync | [`SharedProcessor`] |
//! | buffer of a handler | [`ListenerBuffer`] |
//!
//! The current time and random numbers are arguments, and actions and events are return values.
//! [`ProcessorListener`] is the exception: a [`SharedProcessor`] adds events to it, and its `run` is a future
//! that delivers them to the handler. A simulator polls it.
//!
//! [`SharedInformer`]: crate::SharedInformer
//! [`Reflector`]: crate::reflector::Reflector
//! [`InOrderQueue`]: crate::queue::InOrderQueue
//! [`InformerController`]: crate::InformerController

pub use crate::listener::{EventBatch, ListenerBuffer, ProcessorListener};
pub use crate::processor::SharedProcessor;
pub use crate::pump::{Applied, Pump};
pub use crate::queue::in_order::state::{InOrderState, PoppedBatch};
pub use crate::reflector::state::{
    Effects, Input, ListPlan, ReflectorAction, ReflectorNotice, ReflectorState, Step, WatchPlan,
};
