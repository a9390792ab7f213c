//! Telling that something on disk may have changed, before the next look is
//! due: by what the system says (inotify), or where it says nothing by looking
//! at names, sizes and dates. What has changed is for the pass to find out, by
//! content.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::ModifyKind::Name;
use notify::{Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::ingest::wait_until_quiet::Look;
use ::images::layers::Limits;

/// How long nothing must happen before a change counts as over.
const QUIET: Duration = Duration::from_millis(300);
/// How long that is waited for at most.
const LONGEST: Duration = Duration::from_secs(10);
/// The time between two looks where the system says nothing.
const LOOK: Duration = Duration::from_secs(5);
/// How many links in a path are followed to the folders that they stand in.
const MAX_LINKS: usize = 32;

/// Watches one file or folder, and the links that lead to it.
pub(super) struct Watch {
    path: PathBuf,
    limits: Limits,
    means: Means,
    watcher: Option<RecommendedWatcher>,
    /// What stands in for it.
    looks: Option<Looks>,
    /// Whether a change was begun to be waited out, and that was given up.
    begun: bool,
    events: mpsc::Receiver<()>,
    sender: mpsc::Sender<()>,
}

/// How it is found out that something has changed.
struct Means {
    system: fn(&Watch, &Wanted) -> notify::Result<RecommendedWatcher>,
    /// The time between two looks where the system says nothing.
    look: Duration,
}

/// What was seen, nothing where there was nothing to see, and when to look
/// again.
struct Looks {
    last: Option<Look>,
    due: Instant,
}

impl Watch {
    /// Watches from now on.
    pub(super) fn new(path: &Path, limits: &Limits) -> Self {
        let means = Means {
            system: Self::system,
            look: LOOK,
        };
        Self::by(path, limits, means)
    }

    fn by(path: &Path, limits: &Limits, means: Means) -> Self {
        let (sender, events) = mpsc::channel(1);
        let mut watch = Self {
            // What the system tells is told of absolute paths.
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            limits: limits.clone(),
            means,
            watcher: None,
            looks: None,
            begun: false,
            events,
            sender,
        };
        watch.renew();
        watch
    }

    /// Waits until something has changed and writing seems to be over. Watches
    /// what is there then, which may be another folder behind a link.
    pub(super) async fn changed(&mut self) {
        if !self.begun {
            self.change().await;
        }
        self.begun = true;
        let settled = async { while tokio::time::timeout(QUIET, self.change()).await.is_ok() {} };
        let _ = tokio::time::timeout(LONGEST, settled).await;
        self.renew();
        self.begun = false;
    }

    /// Waits for a change. It may be given up at any time.
    async fn change(&mut self) {
        let Some(looks) = &mut self.looks else {
            // There is an end that sends, as it is ours.
            self.events.recv().await;
            return;
        };
        loop {
            tokio::time::sleep_until(looks.due).await;
            let (path, limits) = (self.path.clone(), self.limits.clone());
            let looking = tokio::task::spawn_blocking(move || Look::at(&path, &limits).ok());
            let now = looking.await.unwrap_or_default();
            looks.due = Instant::now() + self.means.look;
            if looks.last != now {
                looks.last = now;
                return;
            }
        }
    }

    fn renew(&mut self) {
        let wanted = Wanted::of(&self.path);
        match (self.means.system)(self, &wanted) {
            Ok(watcher) => (self.watcher, self.looks) = (Some(watcher), None),
            Err(error) => {
                let every = self.means.look;
                self.watcher = None;
                if self.looks.is_some() {
                    return;
                }
                tracing::warn!(
                    path = %self.path.display(), %error, ?every,
                    "changes cannot be watched for, so dates are looked at"
                );
                self.looks = Some(Looks {
                    last: Look::at(&self.path, &self.limits).ok(),
                    due: Instant::now() + every,
                });
            }
        }
    }

    fn system(&self, wanted: &Wanted) -> notify::Result<RecommendedWatcher> {
        let mut watcher = RecommendedWatcher::new(self.handler(wanted), config())?;
        wanted.add(&mut watcher)?;
        Ok(watcher)
    }

    fn handler(&self, wanted: &Wanted) -> impl Fn(notify::Result<Event>) + Send + 'static {
        let (sender, wanted) = (self.sender.clone(), wanted.clone());
        move |event| {
            // An error may stand for a change.
            if event.map_or(true, |event| wanted.is_told_by(&event)) {
                let _ = sender.try_send(());
            }
        }
    }
}

/// What tells that what a path leads to may have changed. Files of others in
/// the same folders do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    /// The folder that it is, without links.
    folder: Option<PathBuf>,
    /// The file that it is, links in the path, and what is missing of it, each
    /// in a folder without links.
    names: BTreeSet<PathBuf>,
}

impl Wanted {
    fn of(path: &Path) -> Self {
        let mut wanted = Self::default();
        let (links, ways) = links(path);
        wanted.names.extend(links);
        match fs::canonicalize(path) {
            Ok(path) if path.is_dir() => wanted.folder = Some(path),
            // A file may be replaced by another, which only its folder tells.
            Ok(path) => wanted.names.extend([path]),
            Err(_) => wanted
                .names
                .extend(ways.iter().filter_map(|way| missing(way))),
        }
        wanted
    }

    fn add(&self, watcher: &mut impl Watcher) -> notify::Result<()> {
        let folders: BTreeSet<&Path> = self.names.iter().filter_map(|name| name.parent()).collect();
        for folder in folders {
            // The folder itself is watched with all that is in it.
            if self.folder.as_deref() != Some(folder) {
                watcher.watch(folder, RecursiveMode::NonRecursive)?;
            }
        }
        match &self.folder {
            Some(folder) => watcher.watch(folder, RecursiveMode::Recursive),
            None => Ok(()),
        }
    }

    fn is_told_by(&self, event: &Event) -> bool {
        // Reading is none of a change.
        if event.kind.is_access() {
            return false;
        }
        // Something was missed, or a folder that is watched went away.
        if event.need_rescan() || event.paths.is_empty() {
            return true;
        }
        let gone = event.kind.is_remove() || matches!(event.kind, EventKind::Modify(Name(_)));
        event.paths.iter().any(|path| {
            let inside = |folder| path.starts_with(folder);
            self.names.contains(path)
                || self.folder.as_deref().is_some_and(inside)
                || gone && self.names.iter().any(|name| name.starts_with(path))
        })
    }
}

fn config() -> Config {
    // A link may lead to anywhere; those that matter are watched by themselves.
    Config::default().with_follow_symlinks(false)
}

/// The links that a path goes through, which are swapped to replace what is
/// behind them, and the ways that it takes through them.
fn links(path: &Path) -> (BTreeSet<PathBuf>, Vec<PathBuf>) {
    let mut links = BTreeSet::new();
    let mut ways = vec![path.to_owned()];
    let mut next = 0;
    while next < ways.len() && next < MAX_LINKS {
        let way = ways[next].clone();
        next += 1;
        for part in way.ancestors() {
            let (Ok(target), Some(folder)) = (fs::read_link(part), part.parent()) else {
                continue;
            };
            let name = part.file_name().unwrap_or_default();
            let Ok(folder) = folder.canonicalize() else {
                continue;
            };
            if links.insert(folder.join(name)) {
                let rest = way.strip_prefix(part).unwrap_or(Path::new(""));
                ways.push(folder.join(target).join(rest));
            }
        }
    }
    (links, ways)
}

/// The first part of a path that is not there, in a folder without links.
fn missing(path: &Path) -> Option<PathBuf> {
    let mut parts = path.ancestors().peekable();
    while let Some(part) = parts.next() {
        let above = parts.peek()?;
        if above.is_dir() {
            return Some(above.canonicalize().ok()?.join(part.file_name()?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::SystemTime;

    use futures_util::FutureExt as _;

    use super::*;

    /// Longer than a change takes to settle.
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
        let mut watch = Watch::new(&root, &Limits::default());
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
    async fn where_the_system_says_nothing_dates_are_looked_at() {
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
                system: |_, _| Err(notify::Error::generic("too many are watched")),
                look: Duration::from_millis(50),
            };
            let mut watch = Watch::by(path, &Limits::default(), means);
            let quiet = tokio::time::timeout(QUIET, watch.changed()).await;
            assert!(quiet.is_err(), "nothing has happened at step {number}");
            step();
            assert!(changes(&mut watch).await, "step {number}");
        }
    }

    #[tokio::test]
    async fn a_watch_that_fails_is_replaced_by_looks_and_comes_back() {
        static FAILS: AtomicBool = AtomicBool::new(false);
        let folder = tempfile::tempdir().unwrap();
        let means = Means {
            system: |watch, wanted| {
                if FAILS.load(Ordering::Relaxed) {
                    return Err(notify::Error::generic("too many are watched"));
                }
                watch.system(wanted)
            },
            look: Duration::from_millis(50),
        };
        let mut watch = Watch::by(folder.path(), &Limits::default(), means);
        for (number, fails) in [true, true, false, false].into_iter().enumerate() {
            // Counts from the next change on.
            FAILS.store(fails, Ordering::Relaxed);
            fs::write(folder.path().join(number.to_string()), "").unwrap();
            assert!(changes(&mut watch).await, "change {number}");
            assert_eq!(watch.looks.is_some(), fails);
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
        let mut watch = Watch::new(&link.join("catalog"), &Limits::default());
        symlink("v2", folder.path().join("next")).unwrap();
        fs::rename(folder.path().join("next"), &link).unwrap();
        assert!(changes(&mut watch).await);
        fs::write(folder.path().join("v2/catalog/new"), "").unwrap();
        assert!(changes(&mut watch).await);
    }

    #[tokio::test]
    async fn a_change_that_was_not_waited_out_is_told_the_next_time() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = Watch::new(folder.path(), &Limits::default());
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
        let mut watch = Watch::new(&path, &Limits::default());
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
            let mut watch = Watch::new(path, &Limits::default());
            disturb();
            let quiet = tokio::time::timeout(QUIET * 3, watch.changed()).await;
            assert!(quiet.is_err(), "{}", path.display());
            assert!(!watch.begun, "{}", path.display());
            change();
            assert!(changes(&mut watch).await, "{}", path.display());
        }
    }

    #[test]
    fn all_links_in_a_path_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/deep")).unwrap();
        fs::create_dir(root.join("links")).unwrap();
        symlink("../real", root.join("links/second")).unwrap();
        symlink("links/second", root.join("first")).unwrap();
        symlink("first/deep", root.join("zeroth")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let found = |path: &str| Vec::from_iter(links(&root.join(path)).0);
        let wanted = [root.join("first"), root.join("links/second")];
        assert_eq!(found("first/deep"), wanted);
        let wanted = ["first", "links/second", "zeroth"].map(|name| root.join(name));
        assert_eq!(found("zeroth"), wanted);
        assert_eq!(found("real"), [] as [PathBuf; 0]);
        assert_eq!(found("loop/a"), [root.join("loop")]);
    }

    #[test]
    fn the_next_missing_part_of_a_path_is_found_behind_links_too() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("there")).unwrap();
        symlink("there/not/yet", root.join("link")).unwrap();
        let names = |path: &str| Vec::from_iter(Wanted::of(&root.join(path)).names);
        assert_eq!(names("there/a/b/c"), [root.join("there/a")]);
        let wanted = [root.join("link"), root.join("there/not")];
        assert_eq!(names("link/a"), wanted);
    }
}
