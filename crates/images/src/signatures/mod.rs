//! Signatures of images and their verification. Nothing is fetched here: the
//! places of signatures are asked by [`Route::admit`](crate::Route::admit).

pub(crate) mod blob;
pub(crate) mod bundle;
mod file_or_data;
mod object_only;
pub(crate) mod payload;
mod required;
pub(crate) mod sigstore;
mod simple;
mod stores;

pub use stores::SignatureStoreFiles;

pub(crate) use file_or_data::FileOrData;
pub(crate) use required::{RequiredSignature, Signature, SignatureKind};
pub(crate) use sigstore::certificate::certificates;
pub(crate) use sigstore::chain::Authorities;
pub(crate) use sigstore::key::PublicKey;
pub(crate) use sigstore::{
    FulcioTrust, KeyTrust, NamedKey, PkiTrust, SigstoreRequirement, SigstoreSignature, Trust,
};
pub(crate) use simple::{SimpleRequirement, open_message};
pub(crate) use stores::{SignatureStores, StoreAddress, check as parse_stores};
