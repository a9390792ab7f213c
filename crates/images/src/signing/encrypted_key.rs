//! The encrypted private keys of cosign (`generate-key-pair`): scrypt derives
//! the key of a `NaCl` "secretbox" from the password.
//!
//! The file chooses the cost of scrypt, so that only the costs that cosign
//! writes are accepted: the largest takes 128 MiB.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use crypto_secretbox::aead::Aead as _;
use crypto_secretbox::{Key, KeyInit as _, Nonce, XSalsa20Poly1305};
use serde::Deserialize;

/// The accepted costs, as powers of two.
const COSTS: std::ops::RangeInclusive<u8> = 15..=17;
/// The accepted block size and parallelism.
const BLOCK_SIZE: u32 = 8;
const PARALLELISM: u32 = 1;
const SALT: usize = 32;
const NONCE: usize = 24;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EncryptedKey {
    kdf: Kdf,
    cipher: Cipher,
    ciphertext: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kdf {
    name: String,
    params: ScryptParameters,
    salt: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScryptParameters {
    #[serde(rename = "N")]
    cost: u64,
    #[serde(rename = "r")]
    block_size: u32,
    #[serde(rename = "p")]
    parallelism: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cipher {
    name: String,
    nonce: String,
}

/// Decrypts the content of a PEM section. The result is a key in PKCS#8.
pub(super) fn decrypt(content: &[u8], password: &[u8]) -> Result<Vec<u8>, String> {
    let key: EncryptedKey = serde_json::from_slice(content)
        .map_err(|error| format!("its encrypted key cannot be read: {error}"))?;
    let EncryptedKey {
        kdf,
        cipher,
        ciphertext,
    } = key;
    if kdf.name != "scrypt" || cipher.name != "nacl/secretbox" {
        return Err("its key is not encrypted with scrypt and nacl/secretbox".into());
    }
    let ScryptParameters {
        cost,
        block_size,
        parallelism,
    } = kdf.params;
    let mut costs = COSTS;
    let cost = costs.find(|accepted| 1 << accepted == cost);
    let (Some(cost), BLOCK_SIZE, PARALLELISM) = (cost, block_size, parallelism) else {
        return Err(
            "its key has unusual parameters of scrypt: accepted are N = 32768, 65536 or 131072 \
             with r = 8 and p = 1"
                .into(),
        );
    };
    let salt: [u8; SALT] = fixed(&kdf.salt, "salt")?;
    let nonce: [u8; NONCE] = fixed(&cipher.nonce, "nonce")?;
    let ciphertext = decoded(&ciphertext, "ciphertext")?;
    let parameters = scrypt::Params::new(cost, BLOCK_SIZE, PARALLELISM)
        .map_err(|error| format!("scrypt: {error}"))?;
    let mut key = Key::default();
    scrypt::scrypt(password, &salt, &parameters, &mut key)
        .map_err(|error| format!("scrypt: {error}"))?;
    XSalsa20Poly1305::new(&key)
        .decrypt(&Nonce::from(nonce), &ciphertext[..])
        .map_err(|_| {
            let problem = if password.is_empty() {
                "it has a password, and no password file is named"
            } else {
                "the password is wrong"
            };
            format!("its key cannot be decrypted: {problem}")
        })
}

fn decoded(text: &str, what: &str) -> Result<Vec<u8>, String> {
    let bytes = BASE64_STANDARD.decode(text);
    bytes.map_err(|_| format!("the {what} of its key is not base64"))
}

fn fixed<const LENGTH: usize>(text: &str, what: &str) -> Result<[u8; LENGTH], String> {
    let bytes = decoded(text, what)?.try_into();
    bytes.map_err(|_| format!("the {what} of its key has the wrong length"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A key as cosign writes it.
    fn encrypted(password: &[u8]) -> Value {
        let (salt, nonce) = ([1; SALT], [2; NONCE]);
        let parameters = scrypt::Params::new(15, BLOCK_SIZE, PARALLELISM).unwrap();
        let mut key = Key::default();
        scrypt::scrypt(password, &salt, &parameters, &mut key).unwrap();
        let cipher = XSalsa20Poly1305::new(&key);
        let ciphertext = cipher.encrypt(&Nonce::from(nonce), &b"a key"[..]).unwrap();
        json!({
            "kdf": {
                "name": "scrypt",
                "params": {"N": 32768, "r": 8, "p": 1},
                "salt": BASE64_STANDARD.encode(salt),
            },
            "cipher": {"name": "nacl/secretbox", "nonce": BASE64_STANDARD.encode(nonce)},
            "ciphertext": BASE64_STANDARD.encode(ciphertext),
        })
    }

    #[test]
    fn a_key_needs_its_password() {
        let key = encrypted(b"secret").to_string();
        assert_eq!(decrypt(key.as_bytes(), b"secret").unwrap(), b"a key");
        for (password, problem) in [("secre", "the password is wrong"), ("", "no password file")] {
            let error = decrypt(key.as_bytes(), password.as_bytes()).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn unusual_parameters_are_refused_before_any_memory_is_taken() {
        let key = encrypted(b"");
        for (path, value, problem) in [
            ("/kdf/params/N", json!(1 << 20), "unusual parameters"),
            ("/kdf/params/N", json!(1_u64 << 60), "unusual parameters"),
            ("/kdf/params/N", json!(32767), "unusual parameters"),
            ("/kdf/params/N", json!(0), "unusual parameters"),
            ("/kdf/params/N", json!(-1), "cannot be read"),
            ("/kdf/params/r", json!(1 << 24), "unusual parameters"),
            ("/kdf/params/p", json!(u32::MAX), "unusual parameters"),
            ("/kdf/name", json!("argon2"), "not encrypted with scrypt"),
            ("/cipher/name", json!("aes"), "not encrypted with scrypt"),
            (
                "/kdf/salt",
                json!(""),
                "salt of its key has the wrong length",
            ),
            (
                "/cipher/nonce",
                json!("%"),
                "nonce of its key is not base64",
            ),
            ("/ciphertext", json!("AAAA"), "no password file"),
            ("/cipher", json!({}), "cannot be read"),
        ] {
            let mut key = key.clone();
            *key.pointer_mut(path).unwrap() = value;
            let error = decrypt(key.to_string().as_bytes(), b"").unwrap_err();
            assert!(error.contains(problem), "{path}: {error}");
        }
        assert!(decrypt(b"", b"").is_err());
    }
}
