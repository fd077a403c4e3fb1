//! `ironverbs devices`: every device that a program would see.

use std::env;
use std::process::ExitCode;

use ironverbs_os::environment::trusted;

use crate::library::{Device, GidText, Library, PortText};
use crate::places::Places;
use crate::{Result, plain};

/// Prints the devices; the software device as `ironverbs run` would show it.
pub fn report(places: &Places) -> Result<ExitCode> {
    for device in with_software(&Library::open(&places.library())?)? {
        print(&device);
    }
    Ok(ExitCode::SUCCESS)
}

/// The devices of the list, a software device among them.
pub fn with_software(library: &Library) -> Result<Vec<Device>> {
    if trusted("IRONVERBS_SOFT").is_none_or(|value| value.is_empty() || value == "0") {
        // SAFETY: this process has one thread as long as it has not opened a device.
        unsafe { env::set_var("IRONVERBS_SOFT", "1") };
    }
    library.devices().map_err(|why| format!("no devices: {why}"))
}

fn print(device: &Device) {
    let played = if device.is_software() { "software device" } else { "kernel device" };
    println!("{}  {played}, node GUID {:016x}", device.name, device.guid);
    match &device.ports {
        Err(why) => println!("  cannot be opened: {}", plain(&why.to_string())),
        Ok(ports) => {
            for port in ports {
                let attr = &port.attr;
                println!(
                    "  port {}  {}, {}, MTU {}, {}",
                    port.number,
                    attr.state(),
                    attr.link_layer(),
                    attr.mtu(),
                    attr.rate()
                );
                for gid in &port.gids {
                    let ndev = gid.ndev().unwrap_or_default();
                    println!(
                        "    GID {:<3} {:<40} {}  {ndev}",
                        gid.gid_index,
                        gid.address().to_string(),
                        gid.kind()
                    );
                }
            }
        }
    }
}
