//! The settings in the environment.
//!
//! Settings declare their variables. clap's `env` attribute does not fit:
//!
//! - Flags, environment and file are separate layers of one type, so that
//!   commands can also use the environment without the flags, and a reload can
//!   resolve the layers again.
//! - An empty variable means that the setting is absent. clap would parse it.
//! - Lists have separators that flags do not have: spaces or colons.
//! - Errors name the variable. clap would name a flag that nobody wrote.

use crate::config::declaration::{Declared, Group as _, all};
use crate::config::environment::{CONFIG, Environment, SIGNING_PASSWORD, TOKEN};
use crate::config::error::ConfigError;
use crate::config::settings::Settings;

/// The prefix of all variables of almanac.
const PREFIX: &str = "ALMANAC_";

/// A variable of the environment, as help lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableHelp {
    /// Its name.
    pub name: &'static str,
    /// The flag that it stands for, or what it sets.
    pub meaning: String,
}

impl VariableHelp {
    fn new(setting: &Declared) -> Option<Self> {
        Some(Self {
            name: setting.variable?.name,
            meaning: setting.meaning_of_variable(),
        })
    }
}

impl Environment {
    /// The settings in the environment.
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        let mut settings = Settings::default();
        settings.read_variables(self)?;
        Ok(settings)
    }

    /// The variable that sets an option, by the option's long name.
    pub fn variable_for(option: &str) -> Option<VariableHelp> {
        if option == "config" {
            return Some(VariableHelp {
                name: CONFIG,
                meaning: "--config".to_owned(),
            });
        }
        let mut settings = all(Settings::DECLARED).into_iter();
        let setting = settings.find(|setting| setting.option() == Some(option))?;
        VariableHelp::new(setting)
    }

    /// The variables of settings that have no flag.
    pub fn variables_without_flag() -> Vec<VariableHelp> {
        let settings = all(Settings::DECLARED).into_iter();
        let without = settings.filter(|setting| setting.flag.is_none());
        without.filter_map(VariableHelp::new).collect()
    }

    /// Unknown variables with almanac's prefix, which are probably misspelt.
    pub fn unknown(&self) -> Vec<String> {
        let settings = all(Settings::DECLARED).into_iter();
        let variables = settings.filter_map(|setting| setting.variable);
        let mut known: Vec<&str> = variables.map(|variable| variable.name).collect();
        known.extend([CONFIG, TOKEN, SIGNING_PASSWORD]);
        let names = self.names().map(|name| name.to_string_lossy());
        let own = names.filter(|name| name.starts_with(PREFIX) && !is_service(name));
        own.filter(|name| !known.contains(&name.as_ref()))
            .map(std::borrow::Cow::into_owned)
            .collect()
    }
}

/// Whether Kubernetes may have set the variable: every pod gets variables such as
/// `ALMANAC_PORT` for a Service named `almanac`.
fn is_service(name: &str) -> bool {
    name.ends_with("_PORT")
        || ["_PORT_", "_SERVICE_HOST", "_SERVICE_PORT"]
            .iter()
            .any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_the_name_of_its_flag_in_capitals() {
        for setting in all(Settings::DECLARED) {
            let Some(option) = setting.option() else {
                continue;
            };
            let name = format!("{PREFIX}{}", option.to_uppercase().replace('-', "_"));
            let variable = setting.variable.map(|variable| variable.name);
            assert_eq!(variable, Some(name.as_str()), "{}", setting.key);
        }
    }
}
