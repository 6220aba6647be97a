//! Tests of links and queue disciplines through their public face.

mod common;
mod defaults;
mod disciplines;
mod due;
mod impairments;
mod kernel;
mod properties;
mod queues;
mod shapers;
mod switch;
