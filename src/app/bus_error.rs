//! The end when a served file cannot be read. Files are mapped, and the system answers
//! access beyond the end of a file that was cut afterwards with SIGBUS, and access to a
//! page that the disk cannot read. The bytes are missing, so almanac reports that and
//! exits. The next start compares the lengths of all files and rebuilds the cut ones.
#![expect(unsafe_code, reason = "only the C library sets a signal handler")]

use std::{mem, ptr};

/// The exit code: an input or output error, as in `sysexits.h`.
const EXIT_CODE: libc::c_int = 74;

const MESSAGE: &[u8] = b"error: a file in the data folder was cut, or the disk could not read it, \
    while it was served (SIGBUS); almanac exits with code 74, and the next start verifies the file\n";

/// Handles SIGBUS from now on.
pub(super) fn install() {
    // SAFETY: a zeroed `sigaction` is valid: no flags, an empty mask. The handler has
    // the type that goes without `SA_SIGINFO`, and makes only calls that are allowed
    // in a handler.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = end as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // On the stack for signals, if the thread has one.
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
    }
}

extern "C" fn end(_: libc::c_int) {
    // SAFETY: both calls are safe in a signal handler (POSIX, "signal concepts"), and
    // the message is static.
    unsafe {
        libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
        libc::_exit(EXIT_CODE);
    }
}
