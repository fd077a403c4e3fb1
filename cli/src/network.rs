//! What `ironverbs doctor` says of other hosts: whether this one has what RoCE v2 in user space needs.

use std::fs;
use std::path::Path;

use softrdma::device::{Cut, Examination, Settings, examine_port, udp_port};

use crate::doctor::Verdict;

/// A line of the report, with what repairs it.
pub type Line = (Verdict, &'static str, String, Vec<String>);

const WHAT: &str = "other hosts";

/// The lines of it.
pub fn lines() -> Vec<Line> {
    let mut lines = match examine_port() {
        Ok(found) => of_port(&found, Settings::asks_for_network()),
        Err(why) => vec![(Verdict::Note, WHAT, format!("none is reached: {why}"), Vec::new())],
    };
    lines.extend(of_firewall(Path::new("/")));
    lines
}

/// What was found where the port is to be had.
fn of_port(found: &Examination, is_asked_for: bool) -> Vec<Line> {
    let port = udp_port();
    let finding = match is_asked_for {
        true => format!("reached by UDP port {port}, which this user has"),
        false => format!("not asked for (ironverbs run --network INTERFACE); UDP port {port} is to be had"),
    };
    let mut lines = vec![(Verdict::Good, WHAT, finding, Vec::new())];
    if let Some(small) = found.small_room {
        let repair = format!("sudo sysctl net.core.rmem_max={} net.core.wmem_max={0}", small.wanted);
        lines.push((Verdict::Note, "receive buffer", small.to_string(), vec![repair]));
    }
    if !found.trains {
        let finding = "the kernel does not cut messages into packets (UDP_SEGMENT, Linux 4.18): each leaves by \
                       a call of its own, which is slower";
        lines.push((Verdict::Note, "segmentation", finding.to_owned(), Vec::new()));
    }
    if let Some(Cut { sent, whole, other }) = found.cut {
        let finding = format!(
            "of 8 packets of one call {sent} left, {whole} came as they were, and {other} otherwise: what they \
             carry is sent again, or never arrives"
        );
        let repair = "sudo ethtool -K INTERFACE tx-udp-segmentation off rx-udp-gro-forwarding off gro off";
        lines.push((Verdict::Note, "segmentation", finding, vec![repair.to_owned()]));
    }
    lines
}

/// A firewall that is switched on here, which lets nothing in by the port unless it is told to.
fn of_firewall(root: &Path) -> Option<Line> {
    let at = |path: &str| root.join(path);
    let ufw = fs::read_to_string(at("etc/ufw/ufw.conf")).unwrap_or_default();
    let port = udp_port();
    let (name, repair) = if ufw.lines().any(|line| line.trim() == "ENABLED=yes") {
        ("ufw", format!("sudo ufw allow {port}/udp"))
    } else if at("run/firewalld").exists() {
        ("firewalld", format!("sudo firewall-cmd --add-port={port}/udp"))
    } else {
        return None;
    };
    let finding =
        format!("{name} is switched on: other hosts' packets come where it lets UDP port {port} in");
    Some((Verdict::Note, "firewall", finding, vec![repair]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_host_has_one_line() {
        let found = Examination { small_room: None, trains: true, cut: None };
        for is_asked_for in [true, false] {
            let lines = of_port(&found, is_asked_for);
            assert!(matches!(&lines[..], [(Verdict::Good, WHAT, _, repair)] if repair.is_empty()));
        }
    }

    #[test]
    fn what_is_missing_is_told_with_what_repairs_it() {
        let small_room = softrdma::device::SmallRoom { wanted: 4 << 20, got: 212_992 };
        let cut = Cut { sent: 8, whole: 1, other: 2 };
        let lines =
            of_port(&Examination { small_room: Some(small_room), trains: false, cut: Some(cut) }, true);
        let texts: Vec<_> =
            lines.iter().map(|(_, what, finding, repair)| format!("{what}: {finding} {repair:?}")).collect();
        for (line, words) in texts[1..].iter().zip([
            ["212992", "net.core.rmem_max=4194304 net.core.wmem_max=4194304"],
            ["UDP_SEGMENT", "slower"],
            ["1 came as they were, and 2 otherwise", "ethtool -K"],
        ]) {
            assert!(words.iter().all(|word| line.contains(word)), "{line}");
        }
        assert_eq!(texts.len(), 4);
    }

    #[test]
    fn a_firewall_is_seen_where_it_is_switched_on() {
        let root = std::env::temp_dir().join(format!("ironverbs-firewall-{}", std::process::id()));
        fs::create_dir_all(root.join("etc/ufw")).unwrap();
        assert_eq!(of_firewall(&root).map(|line| line.3), None);
        fs::write(root.join("etc/ufw/ufw.conf"), "# ENABLED=yes\nENABLED=no\n").unwrap();
        assert!(of_firewall(&root).is_none());
        fs::write(root.join("etc/ufw/ufw.conf"), "ENABLED=yes\n").unwrap();
        assert_eq!(of_firewall(&root).unwrap().3, ["sudo ufw allow 4791/udp"]);
        fs::remove_file(root.join("etc/ufw/ufw.conf")).unwrap();
        fs::create_dir_all(root.join("run/firewalld")).unwrap();
        assert_eq!(of_firewall(&root).unwrap().3, ["sudo firewall-cmd --add-port=4791/udp"]);
        fs::remove_dir_all(root).unwrap();
    }
}
