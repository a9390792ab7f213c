//! `sigstoreSigned` with logs, Fulcio and other authorities, bundles, and the
//! signatures that almanac makes. skopeo and cosign of the next Debian judge the
//! same material where they are installed.
//!
//! | case | test |
//! |---|---|
//! | 22, 23, 24, 25 | `logs::a_key_with_a_log_needs_an_entry_for_this_very_signature`, `logs::skopeo_judges_entries_of_logs_alike` |
//! | 26, 27, 28, 29, 30, 31, 32 | `certificates::an_identity_needs_a_certificate_that_was_valid_when_it_was_logged`, `certificates::skopeo_judges_certificates_alike` |
//! | 33 | `certificates::other_authorities_certify_an_email_or_a_host_as_of_now` |
//! | 41, 42, 44, 45 | `bundles::a_bundle_names_no_image_and_lets_none_in_by_itself` |
//! | 43 | `bundles::a_bundle_signs_the_image_itself_and_nothing_else` |
//! | 48 | `signing::skopeo_accepts_what_almanac_signs`, `signing::cosign_accepts_what_almanac_signs_with_a_key_of_cosign` |
//! | 49 | `unusual_parameters_are_refused_before_any_memory_is_taken` of the crate `images` |

#![allow(
    clippy::similar_names,
    reason = "a signer signs, and what is signed has a signature"
)]

mod bundles;
mod certificates;
mod logs;
mod material;
mod signing;
mod trial;
