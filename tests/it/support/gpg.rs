//! Keys and signatures of `GnuPG`, in a home of their own.

use std::io::Write as _;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A home of `GnuPG` with keys. Its agent ends with it.
pub(crate) struct Gpg {
    home: TempDir,
}

impl Gpg {
    pub(crate) fn new() -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
        }
    }

    /// Makes a key, and returns its fingerprint. `more` begins with the
    /// algorithm, the usage and the end; options follow.
    pub(crate) fn key(&self, name: &str, more: &[&str]) -> String {
        let address = format!("{name}@example.com");
        let (kind, options) = more.split_at(3);
        let make = ["--quick-gen-key", &address];
        self.run(&[options, &make, kind].concat(), b"");
        self.fingerprints(&address)[0].clone()
    }

    /// The fingerprints of a key and of its subkeys.
    pub(crate) fn fingerprints(&self, key: &str) -> Vec<String> {
        let listed = self.run(&["--list-keys", "--with-colons", key], b"");
        let listed = String::from_utf8(listed).unwrap();
        let lines = listed.lines().filter(|line| line.starts_with("fpr:"));
        lines
            .map(|line| line.split(':').nth(9).unwrap().to_owned())
            .collect()
    }

    /// A signed message. A user with an exclamation mark is exactly that key.
    pub(crate) fn sign(&self, key: &str, content: &[u8], more: &[&str]) -> Vec<u8> {
        self.run(&[&["-u", key][..], more, &["--sign"]].concat(), content)
    }

    /// The public keys, binary.
    pub(crate) fn export(&self, keys: &[&str]) -> Vec<u8> {
        self.run(&[&["--export"][..], keys].concat(), b"")
    }

    /// Revokes a key.
    pub(crate) fn revoke(&self, fingerprint: &str) {
        let path = format!("openpgp-revocs.d/{fingerprint}.rev");
        let text = std::fs::read_to_string(self.home.path().join(path)).unwrap();
        // A colon protects the certificate from being used by accident.
        let text = text.replace(":-----BEGIN", "-----BEGIN");
        self.run(&["--import"], text.as_bytes());
    }

    pub(crate) fn run(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let mut child = Command::new("gpg")
            .arg("--homedir")
            .arg(self.home.path())
            .args(["--batch", "--quiet", "--no-tty", "--yes"])
            .args(["--pinentry-mode", "loopback", "--passphrase", ""])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // One that fails early does not read it.
        let _ = stdin.write_all(input);
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        output.stdout
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        // An error means that there is no agent.
        let _ = Command::new("gpgconf")
            .arg("--homedir")
            .arg(self.home.path())
            .args(["--kill", "all"])
            .output();
    }
}
