//! Telling that something on disk may have changed, before the next look is
//! due: by what the system says (inotify), or where it says nothing by looking
//! at dates. What has changed is for the pass to find out, by content.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{Config, PollWatcher, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

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
    watcher: Option<Box<dyn Watcher + Send>>,
    /// Whether a change was begun to be waited out, and that was given up.
    begun: bool,
    events: mpsc::Receiver<()>,
    /// Kept, so that the receiver waits also without a watcher.
    sender: mpsc::Sender<()>,
}

impl Watch {
    /// Watches from now on. Without the means to, it tells of nothing.
    pub(super) fn new(path: &Path) -> Self {
        let (sender, events) = mpsc::channel(1);
        let mut watch = Self {
            path: path.to_owned(),
            watcher: None,
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
        if !self.begun && self.events.recv().await.is_none() {
            return std::future::pending().await;
        }
        self.begun = true;
        let settled = async {
            while let Ok(Some(())) = tokio::time::timeout(QUIET, self.events.recv()).await {}
        };
        let _ = tokio::time::timeout(LONGEST, settled).await;
        self.renew();
        self.begun = false;
    }

    fn renew(&mut self) {
        match self.system() {
            Ok(watcher) => self.watcher = Some(Box::new(watcher)),
            Err(error) => {
                tracing::warn!(
                    path = %self.path.display(), %error, every = ?LOOK,
                    "changes cannot be watched for, so dates are looked at"
                );
                self.watcher = match self.by_dates() {
                    Ok(watcher) => Some(Box::new(watcher)),
                    Err(error) => {
                        tracing::warn!(path = %self.path.display(), %error, "nothing is watched");
                        None
                    }
                };
            }
        }
    }

    fn system(&self) -> notify::Result<RecommendedWatcher> {
        let mut watcher = RecommendedWatcher::new(self.handler(), config())?;
        self.add(&mut watcher)?;
        Ok(watcher)
    }

    fn by_dates(&self) -> notify::Result<PollWatcher> {
        let config = config().with_poll_interval(LOOK);
        let mut watcher = PollWatcher::new(self.handler(), config)?;
        self.add(&mut watcher)?;
        Ok(watcher)
    }

    fn handler(&self) -> impl Fn(notify::Result<notify::Event>) + Send + 'static {
        let sender = self.sender.clone();
        move |event| {
            // Reading is none of a change; an error may stand for one.
            if !event.is_ok_and(|event| event.kind.is_access()) {
                let _ = sender.try_send(());
            }
        }
    }

    fn add(&self, watcher: &mut impl Watcher) -> notify::Result<()> {
        for folder in folders_of_links(&self.path) {
            watcher.watch(&folder, RecursiveMode::NonRecursive)?;
        }
        match fs::canonicalize(&self.path) {
            Ok(path) if path.is_dir() => watcher.watch(&path, RecursiveMode::Recursive),
            // A file may be replaced by another, which only its folder tells;
            // so may what is not there yet.
            Ok(path) => watcher.watch(path.parent().unwrap_or(&path), RecursiveMode::NonRecursive),
            Err(_) => {
                let mut above = self.path.ancestors().skip(1);
                let there = above.find(|path| path.is_dir());
                watcher.watch(there.unwrap_or(Path::new(".")), RecursiveMode::NonRecursive)
            }
        }
    }
}

fn config() -> Config {
    // A link may lead to anywhere; those that matter are watched by themselves.
    Config::default().with_follow_symlinks(false)
}

/// The folders in which links stand that a path goes through: these are
/// swapped to replace what is behind them.
fn folders_of_links(path: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut waiting = vec![path.to_owned()];
    for _ in 0..MAX_LINKS {
        let Some(path) = waiting.pop() else { break };
        for part in path.ancestors() {
            let Ok(target) = fs::read_link(part) else {
                continue;
            };
            let Some(folder) = part.parent() else {
                continue;
            };
            let here = folder.as_os_str().is_empty();
            let folder = if here { Path::new(".") } else { folder };
            if !folders.iter().any(|known| known == folder) {
                folders.push(folder.to_owned());
                let rest = path.strip_prefix(part).unwrap_or(Path::new(""));
                waiting.push(folder.join(target).join(rest));
            }
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

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
        let mut watch = Watch::new(&root);
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
    async fn a_swapped_link_is_told_and_what_is_behind_it_watched() {
        let folder = tempfile::tempdir().unwrap();
        for version in ["v1", "v2"] {
            fs::create_dir_all(folder.path().join(version).join("catalog")).unwrap();
        }
        let link = folder.path().join("current");
        symlink("v1", &link).unwrap();
        let mut watch = Watch::new(&link.join("catalog"));
        symlink("v2", folder.path().join("next")).unwrap();
        fs::rename(folder.path().join("next"), &link).unwrap();
        assert!(changes(&mut watch).await);
        fs::write(folder.path().join("v2/catalog/new"), "").unwrap();
        assert!(changes(&mut watch).await);
    }

    #[tokio::test]
    async fn a_change_that_was_not_waited_out_is_told_the_next_time() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = Watch::new(folder.path());
        fs::write(folder.path().join("a"), "").unwrap();
        let early = tokio::time::timeout(QUIET / 2, watch.changed()).await;
        assert!(early.is_err(), "writing may go on");
        assert!(changes(&mut watch).await);
    }

    #[tokio::test]
    async fn what_is_not_there_yet_is_told_when_it_comes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalog.tar");
        let mut watch = Watch::new(&path);
        fs::write(&path, "").unwrap();
        assert!(changes(&mut watch).await);
        fs::write(folder.path().join("next"), "1").unwrap();
        fs::rename(folder.path().join("next"), &path).unwrap();
        assert!(changes(&mut watch).await);
    }

    #[test]
    fn the_folders_of_all_links_in_a_path_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/deep")).unwrap();
        fs::create_dir(root.join("links")).unwrap();
        symlink("../real", root.join("links/second")).unwrap();
        symlink("links/second", root.join("first")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let found = folders_of_links(&root.join("first/deep"));
        assert_eq!(found, [root.clone(), root.join("links")]);
        assert_eq!(folders_of_links(&root.join("real")), [] as [PathBuf; 0]);
        assert_eq!(folders_of_links(&root.join("loop/a")), [root]);
    }
}
