//! Signing images as cosign does, with a key: ECDSA with P-256.
//!
//! ```
//! use images::Digest;
//! use images::signing::{SignatureDocuments, SigningKey, signature_tag};
//!
//! # fn sign(pem: &[u8]) -> Result<(), String> {
//! let key = SigningKey::parse(pem, b"password")?;
//! let image = Digest::of(b"a manifest");
//! let names = ["registry.example/team/app:v1".to_owned()];
//! let signature = SignatureDocuments::sign(&key, &image, &names)?;
//! // The manifest and its blobs go into the repository of the image.
//! println!("{}: {} bytes", signature_tag(&image), signature.manifest.len());
//! # Ok(())
//! # }
//! ```

mod documents;
mod encrypted_key;
mod key;
mod key_source;
mod write_layout;

pub use documents::{SignatureDocuments, signature_tag};
pub use key::SigningKey;
pub use key_source::{KeySource, Password};
pub use write_layout::write_layout;
