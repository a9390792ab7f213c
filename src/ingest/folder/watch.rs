//! Noticing changes on disk before the next poll: by events of the system
//! (inotify), or by names, sizes and dates where there are none. The pass then
//! compares contents.

use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{Config, Event, RecommendedWatcher, Watcher};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::ingest::folder::listing::FolderRules;
use crate::ingest::folder::wait_until_quiet::FolderState;
use crate::ingest::folder::watched_paths::WatchedPaths;

/// A change is over after this time without an event.
const QUIET: Duration = Duration::from_millis(300);
/// The longest wait for that.
const LONGEST: Duration = Duration::from_secs(10);
/// The time between two comparisons where the system reports no events.
const INTERVAL: Duration = Duration::from_secs(5);

/// Watches one file or folder, and the links that lead to it.
pub(crate) struct Watch {
    path: PathBuf,
    rules: FolderRules,
    means: Means,
    watcher: Option<RecommendedWatcher>,
    /// In place of a watcher.
    comparison: Option<Comparison>,
    /// Whether a change was noticed, and the wait for its end was given up.
    begun: bool,
    events: mpsc::Receiver<()>,
    sender: mpsc::Sender<()>,
}

/// How changes are noticed.
#[derive(Clone, Copy)]
struct Means {
    watcher: fn(&mpsc::Sender<()>, &WatchedPaths) -> notify::Result<RecommendedWatcher>,
    /// The time between two comparisons where the system reports no events.
    interval: Duration,
}

/// The state at the last comparison, if the path existed, and the time of the
/// next.
struct Comparison {
    last: Option<FolderState>,
    due: Instant,
}

impl Watch {
    /// Watches from now on.
    pub(crate) async fn new(path: &Path, rules: &FolderRules) -> Self {
        let means = Means {
            watcher: system_watcher,
            interval: INTERVAL,
        };
        Self::by(path, rules, means).await
    }

    async fn by(path: &Path, rules: &FolderRules, means: Means) -> Self {
        let (sender, events) = mpsc::channel(1);
        let mut watch = Self {
            // The system reports absolute paths.
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            rules: rules.clone(),
            means,
            watcher: None,
            comparison: None,
            begun: false,
            events,
            sender,
        };
        watch.renew().await;
        watch
    }

    /// Waits until something has changed and writing seems to be over, then
    /// watches the new target of the path. It may be dropped at any time: the
    /// next call goes on where this one was.
    pub(crate) async fn changed(&mut self) {
        if !self.begun {
            self.change().await;
        }
        self.begun = true;
        let quiet = async { while tokio::time::timeout(QUIET, self.change()).await.is_ok() {} };
        // After the longest time the pass decides whether it can be read.
        let _ = tokio::time::timeout(LONGEST, quiet).await;
        self.renew().await;
        self.begun = false;
    }

    /// Waits for a change. It may be dropped at any time.
    async fn change(&mut self) {
        let Some(comparison) = &mut self.comparison else {
            // Never closed, since `self` has a sender.
            self.events.recv().await;
            return;
        };
        loop {
            tokio::time::sleep_until(comparison.due).await;
            let (path, rules) = (self.path.clone(), self.rules.clone());
            let now = blocking(move || FolderState::at(&path, &rules).ok()).await;
            comparison.due = Instant::now() + self.means.interval;
            // A comparison that panicked says nothing.
            if let Some(now) = now
                && comparison.last != now
            {
                comparison.last = now;
                return;
            }
        }
    }

    /// Watches the target that the path has now. Large folders take a while, so
    /// this uses a blocking thread.
    async fn renew(&mut self) {
        let (path, rules) = (self.path.clone(), self.rules.clone());
        let (sender, means) = (self.sender.clone(), self.means);
        let is_comparing = self.comparison.is_some();
        let renewed = blocking(move || {
            (means.watcher)(&sender, &WatchedPaths::new(&path)).map_err(|error| {
                let first = (!is_comparing).then(|| FolderState::at(&path, &rules).ok());
                (error, first)
            })
        });
        let failed = || Err((notify::Error::generic("watching panicked"), Some(None)));
        match renewed.await.unwrap_or_else(failed) {
            Ok(watcher) => (self.watcher, self.comparison) = (Some(watcher), None),
            Err((error, first)) => {
                self.watcher = None;
                let (Some(last), None) = (first, &self.comparison) else {
                    return;
                };
                let every = self.means.interval;
                tracing::warn!(
                    path = %self.path.display(), %error, ?every,
                    "cannot watch for changes; comparing dates instead"
                );
                self.comparison = Some(Comparison {
                    last,
                    due: Instant::now() + every,
                });
            }
        }
    }
}

/// Runs work on a blocking thread; `None` when it panicked, which is logged.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Some(done),
        Err(error) => {
            tracing::error!(%error, "comparing dates on disk panicked");
            None
        }
    }
}

/// A watcher that uses the system's events.
fn system_watcher(
    sender: &mpsc::Sender<()>,
    paths: &WatchedPaths,
) -> notify::Result<RecommendedWatcher> {
    // A link may lead anywhere; those that matter are watched by themselves.
    let config = Config::default().with_follow_symlinks(false);
    let (sender, relevant) = (sender.clone(), paths.clone());
    let handler = move |event: notify::Result<Event>| {
        // An error may stand for a change.
        if event.map_or(true, |event| relevant.is_changed_by(&event)) {
            // When it is full, a change is waiting already.
            let _ = sender.try_send(());
        }
    };
    let mut watcher = RecommendedWatcher::new(handler, config)?;
    paths.add(&mut watcher)?;
    Ok(watcher)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::SystemTime;

    use futures_util::FutureExt as _;

    use super::*;

    /// Longer than a change takes to end.
    const PATIENCE: Duration = Duration::from_secs(20);

    async fn changes(watch: &mut Watch) -> bool {
        tokio::time::timeout(PATIENCE, watch.changed())
            .await
            .is_ok()
    }

    #[tokio::test]
    async fn each_way_to_change_a_folder_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("catalog");
        fs::create_dir_all(root.join("a")).unwrap();
        let file = root.join("a/catalog.yaml");
        fs::write(&file, "1").unwrap();
        let mut watch = Watch::new(&root, &FolderRules::default()).await;
        let quiet = tokio::time::timeout(QUIET, watch.changed()).await;
        assert!(quiet.is_err(), "nothing has happened");
        let steps: [&dyn Fn(); 4] = [
            &|| fs::write(&file, "2").unwrap(),
            &|| fs::create_dir(root.join("b")).unwrap(),
            // Of the folder that is new.
            &|| fs::write(root.join("b/catalog.yaml"), "3").unwrap(),
            &|| fs::remove_file(&file).unwrap(),
        ];
        for (number, step) in steps.iter().enumerate() {
            step();
            assert!(changes(&mut watch).await, "step {number}");
        }
    }

    #[tokio::test]
    async fn without_events_of_the_system_dates_are_compared() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        for version in ["v1", "v2"] {
            fs::create_dir_all(path.join(version)).unwrap();
            fs::write(path.join(version).join("catalog.yaml"), "1").unwrap();
        }
        let link = path.join("link");
        symlink("v1", &link).unwrap();
        let (root, file) = (path.join("v1"), path.join("v1/catalog.yaml"));
        let later = path.join("later");
        let steps: [(&Path, &dyn Fn()); 7] = [
            (&root, &|| fs::write(&file, "2").unwrap()),
            (&root, &|| fs::write(root.join("more.yaml"), "3").unwrap()),
            (&root, &|| fs::remove_file(root.join("more.yaml")).unwrap()),
            // As a copy that keeps dates does.
            (&file, &|| {
                let opened = fs::File::options().append(true).open(&file).unwrap();
                opened.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            }),
            (&link, &|| fs::write(&file, "4").unwrap()),
            (&link, &|| {
                symlink("v2", path.join("next")).unwrap();
                fs::rename(path.join("next"), &link).unwrap();
            }),
            (&later, &|| fs::write(&later, "5").unwrap()),
        ];
        for (number, (path, step)) in steps.iter().enumerate() {
            let means = Means {
                watcher: |_, _| Err(notify::Error::generic("too many are watched")),
                interval: Duration::from_millis(50),
            };
            let mut watch = Watch::by(path, &FolderRules::default(), means).await;
            let quiet = tokio::time::timeout(QUIET, watch.changed()).await;
            assert!(quiet.is_err(), "nothing has happened at step {number}");
            step();
            assert!(changes(&mut watch).await, "step {number}");
        }
    }

    #[tokio::test]
    async fn a_watch_that_fails_is_replaced_by_comparisons_and_comes_back() {
        static FAILS: AtomicBool = AtomicBool::new(false);
        let folder = tempfile::tempdir().unwrap();
        let means = Means {
            watcher: |sender, watched| {
                if FAILS.load(Ordering::Relaxed) {
                    return Err(notify::Error::generic("too many are watched"));
                }
                system_watcher(sender, watched)
            },
            interval: Duration::from_millis(50),
        };
        let mut watch = Watch::by(folder.path(), &FolderRules::default(), means).await;
        for (number, fails) in [true, true, false, false].into_iter().enumerate() {
            // Counts from the next change on.
            FAILS.store(fails, Ordering::Relaxed);
            fs::write(folder.path().join(number.to_string()), "").unwrap();
            assert!(changes(&mut watch).await, "change {number}");
            assert_eq!(watch.comparison.is_some(), fails);
        }
    }

    #[tokio::test]
    async fn a_swapped_link_is_told_and_what_is_behind_it_watched() {
        let folder = tempfile::tempdir().unwrap();
        for version in ["v1", "v2"] {
            fs::create_dir_all(folder.path().join(version).join("catalog")).unwrap();
        }
        let link = folder.path().join("current");
        symlink("v1", &link).unwrap();
        let mut watch = Watch::new(&link.join("catalog"), &FolderRules::default()).await;
        symlink("v2", folder.path().join("next")).unwrap();
        fs::rename(folder.path().join("next"), &link).unwrap();
        assert!(changes(&mut watch).await);
        fs::write(folder.path().join("v2/catalog/new"), "").unwrap();
        assert!(changes(&mut watch).await);
    }

    #[tokio::test]
    async fn a_change_that_was_not_waited_out_is_told_the_next_time() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = Watch::new(folder.path(), &FolderRules::default()).await;
        fs::write(folder.path().join("a"), "").unwrap();
        let begin = Instant::now();
        while !watch.begun {
            // Looked at once, it cannot have been waited out.
            let early = watch.changed().now_or_never();
            assert!(early.is_none(), "writing may go on");
            assert!(begin.elapsed() < PATIENCE, "nothing is told");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(changes(&mut watch).await);
    }

    #[tokio::test]
    async fn what_is_not_there_yet_is_told_when_it_comes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalog.tar");
        let mut watch = Watch::new(&path, &FolderRules::default()).await;
        fs::write(&path, "").unwrap();
        assert!(changes(&mut watch).await);
        fs::write(folder.path().join("next"), "1").unwrap();
        fs::rename(folder.path().join("next"), &path).unwrap();
        assert!(changes(&mut watch).await);
    }

    #[tokio::test]
    async fn what_others_do_beside_it_is_none_of_its_changes() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for version in ["v1", "v2"] {
            fs::create_dir_all(root.join(version).join("catalog")).unwrap();
        }
        symlink("v1", root.join("current")).unwrap();
        fs::write(root.join("catalog.tar"), "").unwrap();
        let disturb = || {
            fs::write(root.join("almanac.log"), "more").unwrap();
            fs::create_dir_all(root.join("other/folder")).unwrap();
            fs::rename(root.join("almanac.log"), root.join("almanac.log.1")).unwrap();
            fs::remove_dir_all(root.join("other")).unwrap();
        };
        let file = root.join("catalog.tar");
        let missing = root.join("later/catalog");
        let linked = root.join("current/catalog");
        let cases: [(&Path, &dyn Fn()); 3] = [
            (&file, &|| fs::write(&file, "1").unwrap()),
            (&missing, &|| fs::create_dir_all(&missing).unwrap()),
            (&linked, &|| {
                symlink("v2", root.join("next")).unwrap();
                fs::rename(root.join("next"), root.join("current")).unwrap();
            }),
        ];
        for (path, change) in cases {
            let mut watch = Watch::new(path, &FolderRules::default()).await;
            disturb();
            let quiet = tokio::time::timeout(QUIET * 3, watch.changed()).await;
            assert!(quiet.is_err(), "{}", path.display());
            assert!(!watch.begun, "{}", path.display());
            change();
            assert!(changes(&mut watch).await, "{}", path.display());
        }
    }
}
