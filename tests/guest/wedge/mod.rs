//! Nothing can wedge the driver: devices that hang, locks that are kept, udev
//! that stands still. What is hit says who holds what, everything else goes
//! on, and all mends itself without a restart.

mod devices;
mod processes;
mod slow;
