//! Webhooks: tells receivers over HTTP when a catalog has a new revision, when one
//! was refused, and when a catalog recovers.
//!
//! An [`Event`] becomes a `CloudEvent` in structured mode, signed as Standard Webhooks
//! describes it. [`Webhooks`] takes events without waiting and hands them to one
//! task for each [`Receiver`], so that no receiver delays a pass or another
//! receiver. Events that are not delivered yet are in memory only: the history and
//! its feed keep what was published.

mod event;
mod outside;
mod queue;
mod receiver;
mod sender;
mod signature;
mod webhook;

pub use event::{Event, EventData, EventKind, Failure, Publication, Recovery, Update};
pub use receiver::{DeliveryError, Receiver, WebhookError};
pub use sender::{WebhookStatus, Webhooks, describe_metrics};
pub use webhook::{ReceiverUrl, Webhook, WebhookName, is_source};
