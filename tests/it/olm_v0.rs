//! What the pages, manifests and Dockerfiles say to those who run Operator
//! Lifecycle Manager: it can be typed, it agrees, and it works.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use almanac::cli;
use clap::{CommandFactory as _, Parser as _};

use crate::manifests::deployed;
use crate::support::program::{PATIENCE, Start};
use crate::support::yaml;

/// A stage of a Dockerfile: what it is made from and what it says.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    pub(crate) from: String,
    lines: Vec<(String, String)>,
}

impl Stage {
    /// The values of an instruction.
    pub(crate) fn all(&self, instruction: &str) -> Vec<&str> {
        let lines = self.lines.iter().filter(|(name, _)| name == instruction);
        lines.map(|(_, value)| value.as_str()).collect()
    }

    /// The words of an instruction in its JSON form, which the last one counts.
    pub(crate) fn words(&self, instruction: &str) -> Vec<String> {
        serde_json::from_str(self.all(instruction).last().unwrap()).unwrap()
    }
}

/// The stages by name; one without a name is called "".
pub(crate) fn dockerfile(text: &str) -> BTreeMap<String, Stage> {
    let joined = text.replace("\\\n", " ");
    let mut stages = BTreeMap::new();
    let mut current = None;
    for line in joined.lines() {
        let Some((instruction, value)) = line.trim().split_once(' ') else {
            continue;
        };
        if instruction == "FROM" {
            let (from, name) = value.split_once(" AS ").unwrap_or((value, ""));
            let stage = Stage {
                from: from.to_owned(),
                ..Stage::default()
            };
            assert!(stages.insert(name.to_owned(), stage).is_none(), "{name}");
            current = Some(name.to_owned());
        } else if let Some(stage) = current.as_ref().and_then(|name| stages.get_mut(name))
            && !instruction.starts_with('#')
        {
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            stage.lines.push((instruction.to_owned(), value));
        }
    }
    stages
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// `opm` with these words can be typed.
pub(crate) fn typed(words: &[impl AsRef<str>]) {
    let words = words.iter().map(AsRef::as_ref);
    if let Err(error) = cli::Arguments::try_parse_from(["almanac", "opm"].into_iter().chain(words))
    {
        panic!("{error}");
    }
}

#[test]
fn the_images_have_what_operator_lifecycle_manager_runs() {
    let text = read("Dockerfile");
    let stages = dockerfile(&text);
    let build = stages["build"].all("RUN").join(" ");
    let opm = &stages["opm-image"];
    assert_eq!(opm.all("COPY"), ["--from=build /out/opm/bin/ /bin/"]);
    for made in [
        "deploy/split-debug-info target/dist/almanac /out/usr/bin/almanac",
        "install -m 0755 /out/usr/bin/almanac /out/opm/bin/opm",
        "ln -s opm /out/opm/bin/grpc_health_probe",
    ] {
        assert!(build.contains(made), "{build}");
    }
    assert_eq!(opm.words("ENTRYPOINT"), ["/bin/opm"]);
    typed(&opm.words("CMD"));
    assert_eq!(opm.all("EXPOSE"), ["50051"]);
    assert_eq!(opm.all("USER"), ["65532:65532"]);
    assert_eq!(opm.from, stages["almanac"].from);

    // The real opm lies where this one looks for it.
    let both = &stages["olm-opm-image"];
    assert_eq!(both.from, "opm-image");
    assert_eq!(
        both.all("COPY"),
        ["--from=upstream /bin/opm /bin/opm-upstream"]
    );
    assert_eq!(stages["upstream"].from, "${OPM_IMAGE}");
    let before = text.split("FROM ").next().unwrap();
    assert!(before.contains("\nARG OPM_IMAGE="), "{before}");

    // What is built unless a target is named is almanac itself.
    let last = text
        .lines()
        .rfind(|line| line.starts_with("FROM "))
        .unwrap();
    assert!(last.ends_with(" AS almanac"), "{last}");
}

/// How OLM runs a catalog whose content it has taken out, and its probes.
#[test]
fn what_operator_lifecycle_manager_types_is_understood() {
    typed(&["serve", "/extracted-catalog/catalog"]);
    typed(&[
        "serve",
        "/extracted-catalog/catalog",
        "--cache-dir=/extracted-catalog/cache",
    ]);
    // Nobody listens there: it is the arguments that are looked at.
    let probe = Start::new(["-addr=:1", "-connect-timeout=10ms"]).called("grpc_health_probe");
    assert_eq!(probe.run().status.code(), Some(2));
}

#[test]
fn the_image_of_a_catalog_is_built_and_served_by_its_own_words() {
    let stages = dockerfile(&read("deploy/catalog.Dockerfile"));
    let stage = &stages[""];
    assert_eq!(stage.from, "almanac-opm");
    let [added] = stage.all("ADD")[..] else {
        panic!("one ADD")
    };
    let (folder, configs) = added.split_once(' ').unwrap();
    let label = format!("operators.operatorframework.io.index.configs.v1={configs}");
    assert_eq!(stage.all("LABEL"), [label]);

    let place = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("deploy")
        .join(folder);
    let inside = |word: &str| {
        let word = word.replace("/tmp/cache", place.path().join("cache").to_str().unwrap());
        word.replace(configs, from.to_str().unwrap())
    };
    let run = stage.words("RUN");
    let start = |program: &str, words: &[String]| {
        let words = words.iter().map(|word| inside(word));
        words.fold(Start::default().called(program), Start::argument)
    };
    let built = start(&run[0], &run[1..]).run();
    assert!(built.status.success(), "{built:?}");

    let entrypoint = stage.words("ENTRYPOINT");
    assert_eq!(entrypoint, run[..1]);
    let mut program = start(&entrypoint[0], &stage.words("CMD"))
        .argument("--port=0")
        .start();
    let address = format!("-addr=:{}", program.address("grpc").port());
    let limits = ["-connect-timeout=20s", "-rpc-timeout=20s"];
    let probe = Start::new([&*address].into_iter().chain(limits));
    let probe = probe.called("grpc_health_probe").run();
    assert!(probe.status.success(), "{probe:?}");
    assert!(
        program.log().contains("the cache fits"),
        "{}",
        program.log()
    );
    program.terminate();
    assert!(program.wait(PATIENCE).success());
}

#[test]
fn the_page_has_the_dockerfile_that_is_there() {
    let page = read("docs/how-to/replace-opm.md");
    let block = page.split("```dockerfile\n").nth(1).unwrap();
    let block = block.split("```").next().unwrap();
    let said = &dockerfile(block)[""];
    let there = &dockerfile(&read("deploy/catalog.Dockerfile"))[""];
    assert_eq!(said.from, there.from);
    assert_eq!(said.lines, there.lines);
}

#[test]
fn every_flag_in_the_place_of_another_program_is_explained() {
    let page = read("docs/how-to/replace-opm.md");
    let command = cli::Arguments::command();
    let opm = command.find_subcommand("opm").unwrap();
    let serve = opm.find_subcommand("serve").unwrap();
    let probe = command.find_subcommand("grpc-health-probe").unwrap();
    let mut count = 0;
    for (command, dashes) in [(opm, "--"), (serve, "--"), (probe, "-")] {
        for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
            let flag = format!("`{dashes}{flag}`");
            assert!(
                page.contains(&flag),
                "docs/how-to/replace-opm.md lacks {flag}"
            );
            count += 1;
        }
    }
    assert!(count > 20, "only {count} flags");
}

#[test]
fn the_manifests_let_clients_always_find_somebody() {
    let all = deployed();
    let of_kind = |kind: &str| {
        all.iter()
            .find(|manifest| manifest["kind"] == kind)
            .unwrap()
    };
    let set = of_kind("StatefulSet");
    let replicas = set["spec"]["replicas"].as_u64().unwrap();
    assert!(replicas >= 2);
    let pod = &set["spec"]["template"]["spec"];
    let pause = &pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"];
    let grace = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    // The drain of the configuration is the one that is built in.
    assert!(grace > pause.as_u64().unwrap() + 20, "{grace}");
    let budget = of_kind("PodDisruptionBudget");
    assert!(budget["spec"]["maxUnavailable"].as_u64().unwrap() < replicas);
    let spread = &pod["topologySpreadConstraints"][0]["labelSelector"];
    assert_eq!(&budget["spec"]["selector"], spread);
    assert_eq!(&set["spec"]["selector"], spread);

    let page = read("docs/how-to/olm-v0.md");
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "sleeps ten seconds",
        "the 20 seconds of `drain`",
        "Two replicas",
    ] {
        assert!(page.contains(said), "docs/how-to/olm-v0.md lacks {said:?}");
    }
}

#[test]
fn sources_with_an_image_name_no_address() {
    let sources = yaml::documents(&read("deploy/catalogsource-image.yaml"));
    assert_eq!(sources.len(), 2);
    for source in &sources {
        assert_eq!(source["kind"], "CatalogSource");
        assert_eq!(source["spec"]["sourceType"], "grpc");
        assert!(source["spec"]["image"].is_string());
        assert!(source["spec"]["address"].is_null());
    }
    let catalog = dockerfile(&read("deploy/catalog.Dockerfile"));
    let configs = catalog[""].all("ADD")[0].split_once(' ').unwrap().1;
    let extracted = &sources[1]["spec"]["grpcPodConfig"]["extractContent"];
    assert_eq!(extracted["catalogDir"], configs);
}
