//! The environment's variables as settings: each by the key that it sets, one variable for one key.

use std::collections::BTreeMap;

use application_core::SettingProblem;
use config::{Map, Value, ValueKind};

use super::load::{ENVIRONMENT_PREFIX, put};

/// The most parts of a key, far more than any has: what is nested without end would exhaust the stack.
const DEEPEST: usize = 16;

/// The settings of the environment, by their dotted keys.
pub(super) struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Takes what begins with the prefix and is not empty. Variables of which one sets what another sets as well, or
    /// something within it, are refused and left out, both: which of them counts would be chance.
    pub(super) fn of(environment: BTreeMap<String, String>, problems: &mut Vec<SettingProblem>) -> Self {
        let prefix = format!("{ENVIRONMENT_PREFIX}__").to_lowercase();
        let mut by_key: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for (name, value) in environment.into_iter().filter(|(_, value)| !value.is_empty()) {
            if let Some(key) = name.to_lowercase().strip_prefix(&prefix) {
                let key = key.replace("__", ".");
                if key.split('.').count() > DEEPEST {
                    let bound = format!("there is no such key: a key has at most {DEEPEST} parts");
                    problems.push(SettingProblem::new(name, "set", bound));
                    continue;
                }
                if key.split('.').any(str::is_empty) {
                    let bound = "there is no such key: a name must stand behind each __";
                    problems.push(SettingProblem::new(name, "set", bound));
                    continue;
                }
                by_key.entry(key).or_default().push((name, value));
            }
        }
        let mut left_out = Vec::new();
        for (key, named) in &by_key {
            if let [(first, _), (second, _), ..] = &named[..] {
                let bound = format!("{second} sets it as well: set one of them");
                problems.push(SettingProblem::new(key, format!("set by {first}"), bound));
                left_out.push(key.clone());
            }
            for (outer, _) in key.match_indices('.') {
                let outer = key.get(..outer).unwrap_or_default();
                if let (Some([(above, _), ..]), [(inner, _), ..]) = (by_key.get(outer).map(Vec::as_slice), &named[..]) {
                    let bound = format!("{inner} sets a key within it: set one of them");
                    problems.push(SettingProblem::new(outer, format!("set by {above}"), bound));
                    left_out.extend([key.clone(), outer.to_owned()]);
                }
            }
        }
        for key in left_out {
            by_key.remove(&key);
        }
        let only = |(key, named): (String, Vec<(String, String)>)| Some((key, named.into_iter().next()?.1));
        Self(by_key.into_iter().filter_map(only).collect())
    }

    /// Takes the text of a key out.
    pub(super) fn take(&mut self, key: &str) -> Option<String> {
        self.0.remove(key)
    }

    /// Puts all over what stands in the tree.
    pub(super) fn put_into(self, root: &mut Map<String, Value>) {
        for (key, text) in self.0 {
            put(root, &key, Value::new(None, ValueKind::String(text)));
        }
    }
}
