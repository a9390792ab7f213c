//! Who may connect to whom, by the rules of NetworkPolicy.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::cluster::{selects, text};

/// One end of a connection.
#[derive(Clone, Debug)]
pub(super) enum End {
    Pod(Pod),
    /// An address outside of the network of pods.
    Outside(Ipv4Addr),
}

#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) labels: Value,
}

impl End {
    pub(super) fn pod(namespace: &str, labels: Value) -> Self {
        Self::Pod(Pod {
            namespace: namespace.to_owned(),
            labels,
        })
    }
}

/// The policies of a cluster. The labels of a namespace are those that each has:
/// its name.
#[derive(Clone, Debug, Default)]
pub(super) struct Network {
    pub(super) policies: Vec<Value>,
}

#[derive(Clone, Copy)]
enum Direction {
    Ingress,
    Egress,
}

impl Direction {
    fn keys(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Ingress => ("Ingress", "ingress", "from"),
            Self::Egress => ("Egress", "egress", "to"),
        }
    }
}

impl Network {
    /// Checks that a connection can be opened.
    ///
    /// # Errors
    /// The side that denies it.
    pub(super) fn connects(
        &self,
        from: &End,
        to: &End,
        port: u64,
        protocol: &str,
    ) -> Result<(), String> {
        for (direction, at, peer) in [
            (Direction::Egress, from, to),
            (Direction::Ingress, to, from),
        ] {
            if let End::Pod(pod) = at
                && !self.allows(direction, pod, peer, port, protocol)
            {
                let (kind, ..) = direction.keys();
                return Err(format!("{kind} of {}", pod.namespace));
            }
        }
        Ok(())
    }

    /// A pod without a policy for a direction is open in it. Otherwise some rule of
    /// some policy has to allow the connection.
    fn allows(
        &self,
        direction: Direction,
        pod: &Pod,
        peer: &End,
        port: u64,
        protocol: &str,
    ) -> bool {
        let (kind, rules, peers) = direction.keys();
        let mut policies = (self.policies.iter())
            .filter(|policy| {
                let types = policy["spec"]["policyTypes"].as_array();
                let types = types.unwrap_or_else(|| panic!("policyTypes is missing: {policy}"));
                policy["metadata"]["namespace"] == pod.namespace
                    && types.contains(&json!(kind))
                    && selects(&policy["spec"]["podSelector"], &pod.labels)
            })
            .peekable();
        policies.peek().is_none()
            || policies.any(|policy| {
                let mut rules = policy["spec"][rules].as_array().into_iter().flatten();
                rules.any(|rule| {
                    any(&rule[peers], |it| is_peer(it, &pod.namespace, peer))
                        && any(&rule["ports"], |it| is_port(it, port, protocol))
                })
            })
    }
}

/// An absent or empty list allows all.
fn any(list: &Value, fits: impl Fn(&Value) -> bool) -> bool {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.is_empty() || list.iter().any(fits)
}

/// `namespace` is the one of the policy.
fn is_peer(rule: &Value, namespace: &str, peer: &End) -> bool {
    for key in rule.as_object().unwrap().keys() {
        assert!(
            ["ipBlock", "namespaceSelector", "podSelector"].contains(&&**key),
            "{key}"
        );
    }
    match peer {
        End::Outside(address) => {
            let block = &rule["ipBlock"];
            let mut except = block["except"].as_array().into_iter().flatten();
            !block.is_null()
                && within(*address, text(&block["cidr"]))
                && !except.any(|cidr| within(*address, text(cidr)))
        }
        End::Pod(pod) => {
            let (spaces, pods) = (&rule["namespaceSelector"], &rule["podSelector"]);
            let labels = json!({"kubernetes.io/metadata.name": pod.namespace});
            let in_namespace = if spaces.is_null() {
                pod.namespace == namespace
            } else {
                selects(spaces, &labels)
            };
            let selected = pods.is_null() || selects(pods, &pod.labels);
            !(spaces.is_null() && pods.is_null()) && in_namespace && selected
        }
    }
}

fn is_port(rule: &Value, port: u64, protocol: &str) -> bool {
    let first = &rule["port"];
    assert!(!first.is_string(), "no manifest needs named ports: {rule}");
    let last = rule["endPort"].as_u64().or(first.as_u64());
    rule["protocol"].as_str().unwrap_or("TCP") == protocol
        && first.as_u64().is_none_or(|first| first <= port)
        && last.is_none_or(|last| port <= last)
}

fn within(address: Ipv4Addr, cidr: &str) -> bool {
    let (base, bits) = cidr.split_once('/').unwrap();
    let (base, bits): (Ipv4Addr, u32) = (base.parse().unwrap(), bits.parse().unwrap());
    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
    address.to_bits() & mask == base.to_bits() & mask
}

mod checks {
    use super::*;

    fn policy(spec: Value) -> Value {
        let mut policy = json!({"metadata": {"namespace": "a"}});
        policy["spec"] = spec;
        policy
    }

    fn network(specs: impl IntoIterator<Item = Value>) -> Network {
        Network {
            policies: specs.into_iter().map(policy).collect(),
        }
    }

    /// Rules for what comes to the pod "one".
    fn ingress(rules: Value) -> Value {
        let selector = json!({"matchLabels": {"app": "one"}});
        let mut spec = json!({"podSelector": selector, "policyTypes": ["Ingress"]});
        spec["ingress"] = rules;
        spec
    }

    #[test]
    fn connections_are_allowed_as_kubernetes_allows_them() {
        let one = End::pod("a", json!({"app": "one"}));
        let two = End::pod("a", json!({"app": "two"}));
        let other = End::pod("b", json!({"app": "two"}));
        let outside = End::Outside(Ipv4Addr::new(192, 0, 2, 9));
        let selecting = |app: &str| json!({"matchLabels": {"app": app}});
        let named = |name: &str| json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
        let deny = json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]});

        // (policies, from, expected for TCP 80)
        let to_one = [
            (vec![], &two, true),
            (vec![ingress(json!([]))], &two, false),
            (vec![ingress(json!([{}]))], &outside, true),
            (vec![deny], &outside, false),
            // Rules of several policies add up.
            (vec![ingress(json!([])), ingress(json!([{}]))], &other, true),
            (
                vec![ingress(
                    json!([{"from": [{"podSelector": selecting("two")}]}]),
                )],
                &two,
                true,
            ),
            // A selector of pods alone is for the namespace of the policy.
            (
                vec![ingress(
                    json!([{"from": [{"podSelector": selecting("two")}]}]),
                )],
                &other,
                false,
            ),
            (
                vec![ingress(json!([{"from": [{"namespaceSelector": {}}]}]))],
                &other,
                true,
            ),
            (
                vec![ingress(json!([{"from": [{"namespaceSelector": {}}]}]))],
                &outside,
                false,
            ),
            // Both in one peer have to fit; of two peers one.
            (
                vec![ingress(json!([{"from": [
                    {"namespaceSelector": named("b"), "podSelector": selecting("one")}
                ]}]))],
                &other,
                false,
            ),
            (
                vec![ingress(json!([{"from": [
                    {"namespaceSelector": named("b")}, {"podSelector": selecting("one")}
                ]}]))],
                &other,
                true,
            ),
            (
                vec![ingress(json!([{"from": [
                    {"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.8/29"]}}
                ]}]))],
                &outside,
                false,
            ),
            (
                vec![ingress(
                    json!([{"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]),
                )],
                &outside,
                true,
            ),
            (
                vec![ingress(
                    json!([{"ports": [{"port": 80, "protocol": "UDP"}]}]),
                )],
                &two,
                false,
            ),
            (
                vec![ingress(json!([{"ports": [{"port": 79, "endPort": 81}]}]))],
                &two,
                true,
            ),
            (
                vec![ingress(json!([{"ports": [{"port": 81}]}]))],
                &two,
                false,
            ),
            (
                vec![ingress(json!([{"ports": [{"protocol": "TCP"}]}]))],
                &two,
                true,
            ),
        ];
        for (policies, from, expected) in to_one {
            let found = network(policies.clone()).connects(from, &one, 80, "TCP");
            assert_eq!(found.is_ok(), expected, "{from:?}: {policies:?}");
        }
    }

    #[test]
    fn the_other_direction_and_pods_that_are_not_selected_stay_open() {
        let one = End::pod("a", json!({"app": "one"}));
        let other = End::pod("b", json!({"app": "two"}));
        let outside = End::Outside(Ipv4Addr::new(192, 0, 2, 9));
        let network = network([ingress(json!([]))]);
        assert!(network.connects(&one, &outside, 80, "TCP").is_ok());
        assert!(network.connects(&one, &other, 80, "TCP").is_ok());
        assert!(network.connects(&other, &one, 80, "TCP").is_err());
        let deny = json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]});
        let denied = self::network([deny]).connects(&one, &other, 80, "TCP");
        assert_eq!(denied, Err("Egress of a".to_owned()));
    }
}
