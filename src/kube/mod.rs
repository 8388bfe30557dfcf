//! Kubernetes: the contract's custom resources, and what reconciles them.
//!
//! Nothing outside of this module knows a Kubernetes type. Objects are only
//! ever changed by patches that name the fields that we own (see [`patch`]),
//! so a field that a newer or older release wrote is never lost.

pub mod agent;
pub mod args;
pub mod client;
pub mod controller;
pub mod crd;
pub mod events;
pub mod failure;
pub mod names;
pub mod partial;
pub mod patch;
pub mod quantity;
pub mod uses;

#[cfg(test)]
mod tests;
