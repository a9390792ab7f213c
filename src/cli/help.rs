//! The parts of help texts that several commands share.

/// The help below the options of a command that reads catalogs: examples,
/// variables, exit codes. Lines begin with two blanks.
macro_rules! help_of_reading {
    ($examples:literal, $codes:literal) => {
        concat!(
            "Examples:\n",
            $examples,
            "\n\nEnvironment:\n",
            "  ALMANAC_PLATFORM, ALMANAC_KUBE_VERSION, ALMANAC_INSECURE, ALMANAC_AUTH_FILE,\n",
            "  ALMANAC_CA_FILE, ALMANAC_CERTS_DIR, ALMANAC_REGISTRIES_CONF,\n",
            "  ALMANAC_MIRROR_FILE, ALMANAC_POLICY_FILE, ALMANAC_LOG and ALMANAC_LOG_FORMAT\n",
            "  set the options of the same name. ALMANAC_TOKEN has the bearer token for a\n",
            "  URL.\n",
            "\nExit codes:\n",
            $codes
        )
    };
}
pub(super) use help_of_reading;
