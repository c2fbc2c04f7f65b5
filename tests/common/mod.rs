//! What several test files share. Each compiles its own copy and uses a part of it.
#![allow(dead_code)]

pub mod corpus;
pub mod gguf_builder;
pub mod known;
pub mod listing;
pub mod mounted;
pub mod opened;
pub mod random;
pub mod temp;
