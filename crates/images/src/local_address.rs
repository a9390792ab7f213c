//! Addresses that a server elsewhere must not lead to: this machine, its network
//! link, and the metadata services of clouds. Services there trust whoever can
//! reach them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Metadata services of clouds, apart from those at link-local addresses.
const METADATA_4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];
const METADATA_6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

/// Whether an address is of this machine, of its link, or of a cloud's metadata
/// service, also inside an address of IPv6 that a gateway or tunnel translates.
///
/// ```
/// use images::is_local_address;
///
/// for local in ["127.0.0.1", "169.254.169.254", "::1", "fe80::1", "64:ff9b::7f00:1"] {
///     assert!(is_local_address(local.parse().unwrap()));
/// }
/// for elsewhere in ["10.0.0.1", "192.0.2.1", "2001:db8::1", "64:ff9b::c000:201"] {
///     assert!(!is_local_address(elsewhere.parse().unwrap()));
/// }
/// ```
pub fn is_local_address(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(ip) => is_local_4(ip),
        IpAddr::V6(ip) => {
            ip.is_loopback()
                || ip.is_unicast_link_local()
                || ip.is_unspecified()
                || METADATA_6.contains(&ip)
                || embedded(ip).into_iter().flatten().any(is_local_4)
        }
    }
}

fn is_local_4(ip: Ipv4Addr) -> bool {
    // Of 0.0.0.0/8, systems take the first for themselves.
    ip.is_loopback() || ip.is_link_local() || ip.octets()[0] == 0 || METADATA_4.contains(&ip)
}

/// The addresses of IPv4 inside one of IPv6, by the prefixes that mean such.
fn embedded(ip: Ipv6Addr) -> [Option<Ipv4Addr>; 5] {
    let bytes = ip.octets();
    let at = |places: [usize; 4]| {
        let [a, b, c, d] = places.map(|place| bytes[place]);
        Some(Ipv4Addr::new(a, b, c, d))
    };
    let last = at([12, 13, 14, 15]);
    let mut found = [None; 5];
    match ip.segments() {
        // Compatible with IPv4 (RFC 4291), translated (RFC 2765), and with the well-known
        // prefix of NAT64 (RFC 6052).
        [0, 0, 0, 0, 0 | 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => found[0] = last,
        // The local prefix of NAT64 (RFC 8215), with the address behind 48, 56, 64 or 96
        // bits. In the other places it has zeros.
        [0x64, 0xff9b, 1, ..] => {
            let forms = [
                [6, 7, 9, 10],
                [7, 9, 10, 11],
                [9, 10, 11, 12],
                [12, 13, 14, 15],
            ];
            for (found, places) in found.iter_mut().zip(forms) {
                *found = at(places).filter(|ip| ip.octets()[0] != 0);
            }
        }
        // 6to4 (RFC 3056).
        [0x2002, ..] => found[0] = at([2, 3, 4, 5]),
        // Teredo (RFC 4380): the server, and the client with all bits inverted.
        [0x2001, 0, ..] => {
            found[0] = at([4, 5, 6, 7]);
            found[1] = last.map(|ip| Ipv4Addr::from_bits(!ip.to_bits()));
        }
        _ => {}
    }
    // ISATAP (RFC 5214) has any prefix.
    if let [.., 0 | 0x200, 0x5efe, _, _] = ip.segments() {
        found[4] = last;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_local(text: &str) -> bool {
        is_local_address(text.parse().unwrap())
    }

    #[test]
    fn this_machine_its_link_and_metadata_services_are_local_in_every_form() {
        for local in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
            "::",
            "::1",
            "fe80::1",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "::169.254.169.254",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b::100.100.100.200",
            "64:ff9b:1::127.0.0.1",
            "64:ff9b:1:7f00:0:100::",
            "64:ff9b:1:a9fe:a9:fe00::",
            "64:ff9b:1:ff7f:0:1::",
            "64:ff9b:1:ffff:7f:0:100::",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2002:c000:c0::1",
            // Teredo: the server, then the client.
            "2001:0:7f00:1::1",
            "2001:0:c000:201::80ff:fffe",
            "2001:db8::5efe:127.0.0.1",
            "2001:db8::200:5efe:169.254.169.254",
        ] {
            assert!(is_local(local), "{local}");
        }
    }

    #[test]
    fn other_addresses_are_not_local_whatever_they_hold() {
        for elsewhere in [
            "10.0.0.1",
            "192.168.1.1",
            "192.0.2.1",
            "100.100.100.201",
            "192.0.0.193",
            "::ffff:10.0.0.1",
            "::192.0.2.1",
            "64:ff9b::192.0.2.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::192.0.2.1",
            "64:ff9b:1:c000:2:100::",
            "2002:c000:201::1",
            "2001:0:c000:201::3fff:fdfe",
            "2001:db8::7f00:1",
            "2001:db8::1",
            "fd00::1",
            "fd00:ec2::253",
            "2606:4700::7f00:1",
        ] {
            assert!(!is_local(elsewhere), "{elsewhere}");
        }
    }
}
