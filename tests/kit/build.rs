//! Generates the CSI services: the client side for tests, the server side for a
//! driver that does nothing. The driver generates its own; nothing of the driver's
//! code is used to judge the driver.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    const PROTO: &str = "../../proto/csi.proto";
    println!("cargo::rerun-if-changed={PROTO}");
    let descriptors = protox::compile([PROTO], ["../../proto"])?;
    tonic_prost_build::configure()
        .generate_default_stubs(true)
        .compile_fds(descriptors)?;
    Ok(())
}
