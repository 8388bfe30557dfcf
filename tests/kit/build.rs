//! Generates the client side of the CSI services. The driver generates its own
//! server side; nothing of the driver's code is used to judge the driver.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    const PROTO: &str = "../../proto/csi.proto";
    println!("cargo::rerun-if-changed={PROTO}");
    let descriptors = protox::compile([PROTO], ["../../proto"])?;
    tonic_prost_build::configure()
        .build_server(false)
        .compile_fds(descriptors)?;
    Ok(())
}
