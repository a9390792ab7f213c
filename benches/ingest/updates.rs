//! Updates of a catalog, and many catalogs: processor time, memory and restarts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::layer::{Catalog, floor};
use crate::mebibytes;
use crate::program::{Running, tag};
use crate::registry::Registry;

const NAME: &str = "catalog";
/// The catalogs of the last rows.
const MANY: usize = 20;
/// How long the folder lies there before the first pass, as folders usually do: dates of files
/// that were written just now are not believed.
const SETTLED: Duration = Duration::from_secs(4);

/// The processor time of a pass and of what follows it, in seconds.
#[derive(Clone, Copy)]
struct Spent {
    pass: f64,
    after: f64,
}

/// Prints the rows of updates from an image and from a folder, as parts of a cold pass.
pub(crate) async fn report(catalog: &Catalog) {
    println!();
    println!("processor time            pass     of cold   after it   of cold");
    image(catalog).await;
    folder(catalog).await;
}

fn row(what: &str, spent: Spent, cold: Spent) {
    println!(
        "{what:22} {:6.2} s   {:6.0} %   {:6.2} s   {:6.0} %",
        spent.pass,
        100.0 * spent.pass / cold.pass,
        spent.after,
        100.0 * spent.after / cold.after
    );
}

/// The numbers of changed packages, with the name of their row.
fn changes(catalog: &Catalog) -> [usize; 3] {
    [1, 20.min(catalog.files()), catalog.files()]
}

async fn image(catalog: &Catalog) {
    let registry = Registry::start(Arc::new(catalog.layer()));
    let data = tempfile::tempdir().unwrap();
    let source = [registry.source(NAME)];
    let mut running = Running::start(data.path(), &["--poll=200ms"], &source, &[NAME]).await;
    let pass = running.processor();
    let mut idle = running.until_done(&[NAME]).await;
    let cold = Spent {
        pass,
        after: idle - pass,
    };
    row("image, cold", cold, cold);
    for (version, count) in changes(catalog).into_iter().enumerate() {
        let layer = Arc::new(catalog.changed(count, version).layer());
        let floor = floor(&layer);
        let before = tag(running.http, NAME).unwrap();
        idle = idle.max(running.processor());
        registry.replace(layer);
        running.until_other(NAME, &before).await;
        let served = Instant::now();
        let pass = running.processor();
        let asked = registry.asked().unwrap_or(served);
        let elapsed = served.duration_since(asked);
        let end = running.until_done(&[NAME]).await;
        let spent = Spent {
            pass: pass - idle,
            after: end - pass,
        };
        row(&format!("image, {count} changed"), spent, cold);
        println!(
            "  answering after {elapsed:.0?}, {:.1} x floor",
            elapsed.as_secs_f64() / floor.as_secs_f64()
        );
        idle = end;
    }
}

async fn folder(catalog: &Catalog) {
    let root = tempfile::tempdir().unwrap();
    let (data, files) = (root.path().join("data"), root.path().join(NAME));
    std::fs::create_dir(&data).unwrap();
    std::fs::create_dir(&files).unwrap();
    catalog.write(&files, None);
    tokio::time::sleep(SETTLED).await;
    let source = [format!("{NAME}=file:{}", files.display())];
    let mut running = Running::start(&data, &["--poll=1h"], &source, &[NAME]).await;
    let pass = running.processor();
    let mut idle = running.until_done(&[NAME]).await;
    let cold = Spent {
        pass,
        after: idle - pass,
    };
    row("folder, cold", cold, cold);
    let mut last = catalog.clone();
    for (version, count) in changes(catalog).into_iter().enumerate() {
        let next = catalog.changed(count, version);
        let before = tag(running.http, NAME).unwrap();
        next.write(&files, Some(&last));
        last = next;
        running.until_other(NAME, &before).await;
        let pass = running.processor();
        let end = running.until_done(&[NAME]).await;
        let spent = Spent {
            pass: pass - idle,
            after: end - pass,
        };
        row(&format!("folder, {count} changed"), spent, cold);
        idle = end;
    }
}

/// Prints the memory and the restart of each further catalog.
pub(crate) async fn report_many(catalog: &Catalog) {
    let registry = Registry::start(Arc::new(catalog.layer()));
    let mut measured = Vec::new();
    for count in [1, MANY] {
        let data = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..count).map(|number| format!("c{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let sources: Vec<String> = names.iter().map(|name| registry.source(name)).collect();
        let mut running = Running::start(data.path(), &["--poll=1h"], &sources, &names).await;
        running.until_done(&names).await;
        drop(running);
        let running = Running::start(data.path(), &["--offline"], &sources, &names).await;
        // Freed memory goes back to the system every 20 seconds.
        tokio::time::sleep(Duration::from_secs(25)).await;
        measured.push((running.anonymous(), running.elapsed));
    }
    let [(one, first), (many, all)] = measured[..] else {
        return;
    };
    let further = (MANY - 1) as f64;
    println!();
    println!(
        "each of {MANY} catalogs beyond the first: RssAnon {:.1} MiB, restart {:.1} ms",
        mebibytes(many.saturating_sub(one)) / further,
        (all.as_secs_f64() - first.as_secs_f64()) * 1e3 / further
    );
}
