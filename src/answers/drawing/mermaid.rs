//! A drawing as text for Mermaid.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::answers::drawing::model::{CLASSES, Drawing, EdgeKind};

/// The styles of the classes.
const STYLES: &str = "  classDef head stroke-width:3px
  classDef deprecated stroke-dasharray:6 3,color:#b35900
  classDef absent opacity:0.6,stroke-dasharray:2 2
  classDef wrong stroke:#cf222e,color:#cf222e
";

impl Drawing<'_> {
    /// The drawing as a flow chart of Mermaid. Arrows lead from a version to its
    /// upgrades.
    pub fn mermaid(&self) -> String {
        let mut out = String::from("flowchart LR\n");
        let mark = self.mark();
        let mut members: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (number, channel) in self.channels.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ = writeln!(
                out,
                "  subgraph c{number}[\"{}{mark}: {}\"]",
                escaped(self.package),
                escaped(&channel.title())
            );
            out.push_str("    direction LR\n");
            for (at, node) in channel.nodes.iter().enumerate() {
                let id = format!("c{number}n{at}");
                let _ = write!(out, "    {id}[\"{}", escaped(node.name));
                let remarks = node.remarks();
                if !remarks.is_empty() {
                    let _ = write!(out, "<br/>{}", escaped(&remarks.join(", ")));
                }
                out.push_str("\"]\n");
                for class in node.classes() {
                    members.entry(class).or_default().push(id.clone());
                }
            }
            for edge in &channel.edges {
                let arrow = match edge.kind {
                    EdgeKind::Replaces => "-->",
                    EdgeKind::Skips => "-.->",
                };
                let _ = writeln!(
                    out,
                    "    c{number}n{} {arrow} c{number}n{}",
                    edge.from, edge.to
                );
            }
            out.push_str("  end\n");
        }
        out.push_str(STYLES);
        for class in CLASSES {
            if let Some(ids) = members.get(class) {
                let _ = writeln!(out, "  class {} {class}", ids.join(","));
            }
        }
        out
    }
}

/// A text for a label in quotes. Characters with a meaning to Mermaid or to the page
/// around it become character codes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            _ if sign.is_alphanumeric() => out.push(sign),
            ' ' | '.' | '-' | '_' | '/' | ':' | '+' | ',' | '(' | ')' => out.push(sign),
            _ if sign.is_control() => out.push('\u{fffd}'),
            _ => {
                let _ = write!(out, "#{};", u32::from(sign));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::drawing::samples::{broken_sample, sample};

    #[test]
    fn a_package_is_a_flow_chart() {
        let blobs = sample();
        let text = Drawing::new(&blobs, "etcd", None).unwrap().mermaid();
        assert_eq!(
            text,
            format!(
                "flowchart LR
  subgraph c0[\"etcd: alpha (deprecated)\"]
    direction LR
    c0n0[\"etcd.v2<br/>head, skips #62;#61;1.0.0 #60;2.0.0\"]
  end
  subgraph c1[\"etcd: stable (default)\"]
    direction LR
    c1n0[\"etcd.v1.0<br/>deprecated\"]
    c1n1[\"etcd.v1.1\"]
    c1n2[\"etcd.v1.1-bad\"]
    c1n3[\"etcd.v2<br/>head\"]
    c1n4[\"etcd.v0.9<br/>not in this channel\"]
    c1n4 --> c1n0
    c1n0 --> c1n1
    c1n0 --> c1n2
    c1n1 --> c1n3
    c1n0 -.-> c1n3
    c1n2 -.-> c1n3
  end
{STYLES}  class c0n0,c1n3 head
  class c1n0 deprecated
  class c1n4 absent
"
            )
        );
    }

    #[test]
    fn what_is_wrong_or_deprecated_is_seen() {
        let blobs = broken_sample();
        let text = Drawing::new(&blobs, "etcd", None).unwrap().mermaid();
        for part in [
            "  subgraph c0[\"etcd (deprecated): stable (default)\"]\n",
            "    c0n0[\"etcd.v1.0<br/>in a cycle, no head leads here, deprecated\"]\n",
            "    c0n2[\"etcd.v3<br/>one of several heads\"]\n",
            "  class c0n2,c0n3 head\n",
            "  class c0n0,c0n1,c0n2,c0n3 wrong\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_hostile_name_stays_inside_its_label() {
        let mut blobs = sample();
        blobs.channels[0].blob.entries[0].name =
            "\"]; click c0n0 call x()\n%%{init: {}}%%</script>`#`".into();
        let text = Drawing::new(&blobs, "etcd", Some("alpha"))
            .unwrap()
            .mermaid();
        let label = text.lines().nth(3).unwrap();
        assert!(label.starts_with("    c0n0[\"#34;#93;#59; click c0n0 call x()\u{fffd}#37;"));
        assert_eq!(label.matches('"').count(), 2, "{label}");
        for bad in ["</script", "%%", "{", "`"] {
            assert!(!text.contains(bad), "{text}");
        }
    }
}
