//! Faults of the disk at a start, of its reads, and of its folders.

use std::fs;
use std::thread;
use std::time::Instant;

use crate::faults::{DURATION, Faults, PATIENCE};
use crate::support::faults::Operation;

impl Faults {
    /// Starts on a disk without room, with new content. The stored revisions are served.
    pub(crate) fn start_on_a_full_disk(&mut self) {
        self.stop();
        let ballast = self.disk.fill();
        self.program.restart();
        self.wait_until_up();
        self.publish();
        thread::sleep(DURATION);
        fs::remove_file(ballast).unwrap();
        self.program.signal("HUP");
    }

    /// Lets reads of stored files fail now and then, with new content. Nothing is damaged.
    pub(crate) fn fail_reads(&mut self) {
        let before = self.damage_found();
        // A query of the database may fail.
        self.world.damage(true);
        let set = |percent| {
            let errors = self.errors.iter();
            errors.for_each(|errors| errors.set(Operation::Read, percent));
        };
        set(3);
        self.publish();
        thread::sleep(DURATION);
        set(0);
        self.program.signal("HUP");
        if self.damage_found() != before {
            let problem = "files that could not be read were taken for damaged ones";
            self.world.violation(problem.into());
        }
    }

    /// Removes the data folder. The program ends, and the next start makes it again.
    pub(crate) fn remove_folder(&mut self) {
        self.world.down();
        let begin = Instant::now();
        // The program may add a file meanwhile.
        while let Err(error) = fs::remove_dir_all(self.program.data()) {
            assert!(begin.elapsed() < PATIENCE, "{error}");
        }
        let status = self.program.wait(PATIENCE);
        if status.code() != Some(1) {
            let problem = format!("without its data folder, the program ended with {status}");
            self.world.violation(problem);
        }
        self.look_at_log();
        self.program.restart();
        self.wait_until_up();
    }
}
