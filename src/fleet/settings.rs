//! The settings of a fleet.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use crate::objects;

/// The longest password, in bytes.
const MAX_PASSWORD: usize = 4096;

/// What replicas share, and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The database.
    pub database: Database,
    /// The file with its password.
    pub password_file: Option<PathBuf>,
    /// PEM files of certificates to trust besides the system's.
    pub ca_files: Vec<PathBuf>,
    /// The bucket.
    pub objects: objects::Settings,
    /// The name of this replica, for people.
    pub name: String,
    /// After this time without an answer of the database, the replica is not ready.
    pub stale: Option<Duration>,
}

/// The URL of a `PostgreSQL` database. Shown, it has neither user nor parameters.
#[derive(Clone, PartialEq, Eq)]
pub struct Database(String);

/// A text that names no database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// Not `postgres://`.
    #[error("write postgres://USER@HOST/DATABASE")]
    Form,
    /// No name of a database.
    #[error("it names no database; write postgres://USER@HOST/DATABASE")]
    NoDatabase,
    /// A sign of a password ends the part with the host.
    #[error("write ?, # and @ in a user or password as %3F, %23 and %40, or use password_file")]
    Password,
    /// An unknown parameter.
    #[error("the parameter {0:?} is not known; there is host, for the folder of a socket")]
    Parameter(String),
}

impl FromStr for Database {
    type Err = DatabaseError;

    fn from_str(text: &str) -> Result<Self, DatabaseError> {
        let rest = text.strip_prefix("postgres://");
        let rest = rest.or_else(|| text.strip_prefix("postgresql://"));
        let rest = rest.ok_or(DatabaseError::Form)?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        // The rest of a password, which is not to be shown.
        if query.contains('@') || rest.contains('#') {
            return Err(DatabaseError::Password);
        }
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let name = part.split('=').next().unwrap_or_default();
            if name != "host" {
                let is_word = |b: u8| b.is_ascii_lowercase() || b == b'_';
                let is_shown = name.len() <= 30 && name.bytes().all(is_word);
                let name = is_shown.then(|| name.to_owned());
                return Err(name.map_or(DatabaseError::Form, DatabaseError::Parameter));
            }
        }
        let name = place.split_once('/').map_or("", |(_, name)| name);
        if name.is_empty() || name.contains('/') {
            return Err(DatabaseError::NoDatabase);
        }
        match PgConnectOptions::from_str(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(_) => Err(DatabaseError::Form),
        }
    }
}

/// The host and the database.
impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        let place = rest.split('?').next().unwrap_or_default();
        let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
        write!(f, "postgres://{place}")
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Settings {
    /// How to connect. The password and the certificates are read now.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(super) fn connection(&self) -> Result<PgConnectOptions, String> {
        let options = PgConnectOptions::from_str(&self.database.0);
        // It was parsed before; its error would show the URL.
        let options = options.map_err(|_| DatabaseError::Form.to_string())?;
        // The whole text of each slow one would bury what tells the reason.
        let mut options = options.disable_statement_logging();
        if let Some(path) = &self.password_file {
            options = options.password(&password(path)?);
        }
        let is_local = options.get_socket().is_some()
            || ["localhost", "127.0.0.1", "::1", "[::1]"].contains(&options.get_host());
        options = options.ssl_mode(if is_local {
            PgSslMode::Prefer
        } else {
            PgSslMode::VerifyFull
        });
        let mut pem = Vec::new();
        for path in &self.ca_files {
            let read = std::fs::read(path);
            pem.extend(read.map_err(|error| format!("ca_files: {}: {error}", path.display()))?);
            pem.push(b'\n');
        }
        if !pem.is_empty() {
            options = options.ssl_root_cert_from_pem(pem);
        }
        Ok(options.application_name("almanac"))
    }
}

/// The first line of a file.
fn password(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| format!("password_file: {}: {error}", path.display()))?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() || line.len() > MAX_PASSWORD {
        return Err(format!(
            "password_file: {}: write the password in one line",
            path.display()
        ));
    }
    Ok(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_shown_without_its_user_and_password() {
        for (text, shown) in [
            (
                "postgres://db.example/almanac",
                "postgres://db.example/almanac",
            ),
            ("postgres://me:p%40ss@db:5433/a", "postgres://db:5433/a"),
            ("postgresql:///a?host=/run/postgresql", "postgres:///a"),
        ] {
            let database: Database = text.parse().unwrap();
            assert_eq!(database.to_string(), shown);
            assert_eq!(format!("{database:?}"), shown);
        }
        for wrong in [
            "",
            "db",
            "mysql://db/a",
            "postgres://db",
            "postgres://db/",
            "postgres://db/a/b",
            "postgres://db/a?sslmode=disable",
        ] {
            assert!(wrong.parse::<Database>().is_err(), "{wrong}");
        }
        for secret in [
            "Abc?Secret9",
            "Abc#Secret9",
            "Abc/Secret9",
            "Abc?host=Secret9",
            "?Secret9",
        ] {
            let url = format!("postgres://me:{secret}@db/almanac");
            let refused = url.parse::<Database>().unwrap_err().to_string();
            assert!(!refused.contains("Secret9"), "{refused}");
        }
    }

    #[test]
    fn a_missing_password_file_is_told_with_its_key() {
        let told = password(Path::new("/none")).unwrap_err();
        assert!(told.starts_with("password_file: /none: "), "{told}");
    }

    #[test]
    fn tls_is_verified_unless_the_database_is_on_this_machine() {
        let connect = |url: &str| {
            let settings = Settings {
                database: url.parse().unwrap(),
                password_file: None,
                ca_files: Vec::new(),
                objects: objects::Settings {
                    location: "s3://abc".parse().unwrap(),
                    credentials: objects::CredentialSource::None,
                    ca_files: Vec::new(),
                },
                name: "a".into(),
                stale: None,
            };
            settings.connection().unwrap().get_ssl_mode()
        };
        for (url, verified) in [
            ("postgres://db.example/a", true),
            ("postgres://10.0.0.1:5432/a", true),
            ("postgres://localhost.example/a", true),
            ("postgres://localhost/a", false),
            ("postgres://127.0.0.1:5433/a", false),
        ] {
            let mode = connect(url);
            assert_eq!(matches!(mode, PgSslMode::VerifyFull), verified, "{url}");
        }
    }
}
