//! A table as text for Mermaid.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::answers::drawing::Subject;
use crate::answers::drawing::matrix::{BundleRow, Cell, LineKind, Matrix, Row};

/// The classes of nodes with their styles.
const STYLES: [(&str, &str); 5] = [
    ("head", "stroke-width:3px"),
    ("deprecated", "stroke-dasharray:6 3,color:#b35900"),
    ("absent", "opacity:0.6,stroke-dasharray:2 2"),
    ("never", "opacity:0.6"),
    ("wrong", "stroke:#cf222e,color:#cf222e"),
];

/// The table as a flow chart of Mermaid. Arrows lead from a version to its updates;
/// those with a cross to one that OLM v0 never installs.
pub fn mermaid(subject: Subject<'_>, matrix: &Matrix<'_>) -> String {
    let mut out = String::from("flowchart LR\n");
    let mark = if subject.deprecated {
        " (deprecated)"
    } else {
        ""
    };
    let mut members: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (number, column) in matrix.columns.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "  subgraph c{number}[\"{}{mark}: {}\"]",
            escaped(subject.package),
            escaped(&column.title())
        );
        out.push_str("    direction LR\n");
        for (at, row) in matrix.rows.iter().enumerate() {
            let id = format!("c{number}n{at}");
            match row {
                Row::Fold { names, .. } if row.has(number) => {
                    let _ = writeln!(out, "    {id}[\"{} versions\"]", names.len());
                }
                Row::Version(bundle) => {
                    if let Some(cell) = row.cell(number) {
                        let _ = writeln!(out, "    {id}[\"{}\"]", label(bundle, cell));
                        for class in classes(bundle, cell) {
                            members.entry(class).or_default().push(id.clone());
                        }
                    }
                }
                Row::Fold { .. } => {}
            }
        }
        for line in matrix.lines.iter().filter(|line| line.column == number) {
            let arrow = match line.kind {
                LineKind::Range => continue,
                LineKind::Jump => "== skipRange ==>",
                _ if line.faint => "--x",
                LineKind::Skips => "-.->",
                LineKind::Replaces | LineKind::ReplacesArc => "-->",
            };
            let (older, newer) = (line.to, line.from);
            let _ = writeln!(out, "    c{number}n{older} {arrow} c{number}n{newer}");
        }
        let left_out = matrix.left_out(number);
        if left_out > 0 {
            let end = if left_out == 1 { "" } else { "s" };
            let _ = writeln!(
                out,
                "    c{number}more[\"and {left_out} more edge{end} by skips\"]"
            );
        }
        out.push_str("  end\n");
    }
    if let Some(further) = matrix.further() {
        let _ = writeln!(out, "  more[\"{further}\"]");
    }
    for (class, style) in STYLES {
        if let Some(ids) = members.get(class) {
            let _ = writeln!(out, "  classDef {class} {style}");
            let _ = writeln!(out, "  class {} {class}", ids.join(","));
        }
    }
    out
}

fn label(bundle: &BundleRow<'_>, cell: &Cell<'_>) -> String {
    let mut remarks = cell.remarks();
    if bundle.deprecation.is_some() {
        remarks.push("deprecated".to_owned());
    }
    match cell.entry {
        None => remarks.push("not in this channel".to_owned()),
        Some(entry) if !entry.skip_range.is_empty() => {
            remarks.push(format!("skips {}", entry.skip_range));
        }
        Some(_) => {}
    }
    let mut label = escaped(bundle.name);
    if !remarks.is_empty() {
        label.push_str("<br/>");
        label.push_str(&escaped(&remarks.join(", ")));
    }
    label
}

fn classes(bundle: &BundleRow<'_>, cell: &Cell<'_>) -> impl Iterator<Item = &'static str> {
    let is_so = [
        cell.heads > 0,
        bundle.deprecation.is_some(),
        cell.is_absent(),
        cell.never.is_some(),
        cell.is_wrong(),
    ];
    let classes = STYLES.into_iter().zip(is_so);
    classes.filter_map(|((class, _), is_so)| is_so.then_some(class))
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
    use crate::answers::drawing::matrix::MatrixView;
    use crate::answers::drawing::matrix::tests::{broken, chain, etcd};
    use crate::answers::rest::plan::Rules;
    use crate::answers::rest::records::ChannelRecord;

    fn drawn(channels: &[ChannelRecord<'_>], deprecated: bool, rules: Rules) -> String {
        let shown: Vec<&ChannelRecord<'_>> = channels.iter().collect();
        let view = MatrixView {
            all: true,
            rules,
            ..MatrixView::default()
        };
        let subject = Subject {
            package: "etcd",
            deprecated,
        };
        mermaid(subject, &Matrix::of(&shown, view))
    }

    #[test]
    fn a_package_is_a_flow_chart() {
        assert_eq!(
            drawn(&etcd(), false, Rules::V1),
            "flowchart LR
  subgraph c0[\"etcd: alpha (deprecated)\"]
    direction LR
    c0n0[\"etcd.v2<br/>head, skips #62;#61;1.0.0 #60;2.0.0\"]
  end
  subgraph c1[\"etcd: stable (default)\"]
    direction LR
    c1n0[\"etcd.v2<br/>head\"]
    c1n1[\"etcd.v1.1\"]
    c1n2[\"etcd.v1.1-bad\"]
    c1n3[\"etcd.v1.0<br/>deprecated\"]
    c1n4[\"etcd.v0.9<br/>not in this channel\"]
    c1n1 --> c1n0
    c1n3 -.-> c1n0
    c1n2 -.-> c1n0
    c1n3 --> c1n1
    c1n4 --> c1n3
    c1n3 --> c1n2
  end
  classDef head stroke-width:3px
  class c0n0,c1n0 head
  classDef deprecated stroke-dasharray:6 3,color:#b35900
  class c1n3 deprecated
  classDef absent opacity:0.6,stroke-dasharray:2 2
  class c1n4 absent
"
        );
    }

    #[test]
    fn what_olm_v0_never_installs_has_a_cross_under_its_rules() {
        let text = drawn(&etcd(), false, Rules::V0);
        for part in [
            "etcd.v1.1-bad<br/>never installed: skipped by 2.0.0",
            "    c1n3 --x c1n2\n",
            "    c1n4 --x c1n3\n",
            "  class c1n2,c1n3 never\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn what_is_wrong_or_deprecated_is_seen() {
        let text = drawn(&broken(), true, Rules::V1);
        for part in [
            "  subgraph c0[\"etcd (deprecated): stable (default)\"]\n",
            "etcd.v1.0<br/>in a cycle, no head leads here, replaces a higher version, deprecated\"]\n",
            "etcd.v3<br/>one of several heads\"]\n",
            "  class c0n0,c0n1 head\n",
            "  class c0n0,c0n1,c0n2,c0n3 wrong\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn edges_that_are_left_out_are_counted() {
        const ENTRIES: usize = 120;
        let mut channel = chain(ENTRIES);
        for (at, entry) in channel.entries.iter_mut().enumerate() {
            let lower = (0..ENTRIES - 1 - at).map(|version| format!("a.v{version}").into());
            entry.skips = lower.collect();
        }
        let text = drawn(&[channel], false, Rules::V1);
        let (_, told) = text.split_once("c0more[\"and ").unwrap();
        let (told, _) = told.split_once(" more edges by skips").unwrap();
        let is_edge = |line: &&str| line.contains(" --> ") || line.contains(" -.-> ");
        let edges = text.lines().filter(is_edge).count();
        // One edge leads from each entry to each lower one.
        let told: usize = told.parse().unwrap();
        assert_eq!(edges + told, ENTRIES * (ENTRIES - 1) / 2);
    }

    #[test]
    fn a_hostile_name_stays_inside_its_label() {
        let mut channels = etcd();
        let name = "\"]; click c0n0 call x()\n%%{init: {}}%%</script>`#`";
        channels[0].entries[0].name = name.into();
        let text = drawn(&channels[..1], false, Rules::V1);
        let label = text.lines().nth(3).unwrap();
        assert!(label.starts_with("    c0n0[\"#34;#93;#59; click c0n0 call x()\u{fffd}#37;"));
        assert_eq!(label.matches('"').count(), 2, "{label}");
        for bad in ["</script", "%%", "{", "`"] {
            assert!(!text.contains(bad), "{text}");
        }
    }
}
