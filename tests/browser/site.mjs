// almanac with the sample catalog and one whose texts would run or move, if any page
// let them; and the browser.

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
export const project = join(here, "../..");
// Packages lie in the folder that NODE_MODULES names, so that none has to lie here.
const modules = process.env.NODE_MODULES ?? join(here, "node_modules");
export const require = createRequire(join(modules, "x.js"));

/** The system's Chromium; CHROMIUM names another one. */
export const launch = () => {
  const { chromium } = require("playwright-core");
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
};

export const script = "\"'><script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">";
const base64 = (text) => Buffer.from(text).toString("base64");
const picture = (content) => ({
  mediatype: "image/png",
  base64data: base64(`<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="32" height="32">${content}</svg>`),
});

const bundle = (name, version, csv, properties = []) => ({
  schema: "olm.bundle", package: name, name: `${name}.v${version}`, image: `example.com/a@sha256:${"0".repeat(64)}`,
  properties: [
    { type: "olm.package", value: { packageName: name, version } },
    ...properties,
    ...(csv ? [{ type: "olm.csv.metadata", value: csv }] : []),
  ],
});

const plain = (name, icon) => [
  { schema: "olm.package", name, defaultChannel: "stable", icon },
  { schema: "olm.channel", package: name, name: "stable", entries: [{ name: `${name}.v1.0.0` }] },
  bundle(name, "1.0.0"),
];

const chain = (count) => [...Array(count).keys()].map((at) => ({
  name: `hostile.v1.${at}.0`, ...(at > 0 && { replaces: `hostile.v1.${at - 1}.0` }),
}));

const hostile = () => {
  const long = "w".repeat(60000);
  const csv = {
    displayName: `${script} \u202eabc`, description: `# ${script}\n\n${long}\n\n[a](javascript:document.title='ran') <namespace>`,
    keywords: [script, long], links: [{ name: script, url: "javascript:document.title='ran'" }],
    maintainers: [{ name: script, email: script }], provider: { name: script }, maturity: script, minKubeVersion: script,
    annotations: {
      description: script, categories: script, capabilities: script, containerImage: script, createdAt: script,
      repository: "javascript:document.title='ran'", support: script, "alm-examples": `no json ${script}`,
    },
  };
  // Pictures of pictures, and names of names: either would grow without an end.
  const uses = [...Array(9).keys()].map((at) => `<g id="g${at + 1}">${`<use xlink:href="#g${at}"/>`.repeat(10)}</g>`);
  const names = [...Array(9).keys()].map((at) => `<!ENTITY n${at + 1} "${`&n${at};`.repeat(10)}">`);
  const entities = `<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY n0 "x">${names.join("")}]>`
    + `<svg xmlns="http://www.w3.org/2000/svg"><text>&n9;</text></svg>`;
  return [
    { schema: "olm.package", name: "hostile", defaultChannel: "stable", description: script,
      icon: picture(`<script>alert(1)</script><image href="http://example.com/a.png"/>`) },
    { schema: "olm.channel", package: "hostile", name: "stable", entries: chain(500) },
    { schema: "olm.channel", package: "hostile", name: script, entries: [{ name: "hostile.v1.0.0" }] },
    ...chain(500).map((_, at) => bundle("hostile", `1.${at}.0`, at === 499 && csv,
      at === 499 ? [{ type: "olm.gvk", value: { group: "g.example.com", version: "v1", kind: script } }] : [])),
    ...plain("uses", picture(`<g id="g0"><path d="M0 0h9v9z"/></g>${uses.join("")}<use xlink:href="#g9"/>`)),
    ...plain("entities", { mediatype: "image/svg+xml", base64data: base64(entities) }),
    // Many channels that share versions.
    { schema: "olm.package", name: "wide", defaultChannel: "c0" },
    ...[...Array(38).keys()].map((at) => ({
      schema: "olm.channel", package: "wide", name: `c${at}`,
      entries: [...Array(60 - at).keys()].map((to) => ({ name: `wide.v1.${to}.0`, ...(to > 0 && { replaces: `wide.v1.${to - 1}.0` }) })),
    })),
    ...[...Array(60).keys()].map((at) => bundle("wide", `1.${at}.0`)),
    // Skips across each other, a range, two heads, a cycle, a name that is not there.
    { schema: "olm.package", name: "tangled", defaultChannel: "stable" },
    { schema: "olm.channel", package: "tangled", name: "stable", entries: [...Array(20).keys()].map((at) => ({
      name: `tangled.v1.${at}.0`,
      replaces: at === 0 ? "tangled.gone" : at === 3 ? "tangled.v1.5.0" : `tangled.v1.${at - 1}.0`,
      ...(at > 12 && { skips: ["tangled.v1.6.0", "tangled.v1.7.0", `tangled.v1.${at - 9}.0`] }),
      ...(at > 17 && { skipRange: ">=1.1.0 <1.12.0" }),
    })) },
    { schema: "olm.channel", package: "tangled", name: "two-heads", entries: [{ name: "tangled.v1.18.0" }, { name: "tangled.v1.19.0" }] },
    ...[...Array(20).keys()].map((at) => bundle("tangled", `1.${at}.0`)),
    // Hundreds of entries, each of which skips those before it by name and by a range.
    { schema: "olm.package", name: "skipping", defaultChannel: "stable" },
    { schema: "olm.channel", package: "skipping", name: "stable", entries: [...Array(500).keys()].map((at) => ({
      name: `skipping.v1.${at}.0`,
      ...(at > 0 && { replaces: `skipping.v1.${at - 1}.0`, skipRange: `>=1.${Math.max(at - 40, 0)}.0 <1.${at}.0` }),
      ...(at % 5 === 4 && { skips: [...Array(100).keys()].filter((to) => to < at - 1).map((to) => `skipping.v1.${at - 2 - to}.0-rc`) }),
    })) },
    ...[...Array(500).keys()].map((at) => bundle("skipping", `1.${at}.0`)),
    { schema: "olm.package", name: "long", defaultChannel: long },
    { schema: "olm.channel", package: "long", name: long, entries: [{ name: `long.v1.0.0-${long}` }, { name: "long.v2.0.0", replaces: `long.v1.0.0-${long}` }] },
    bundle("long", "2.0.0"),
  ];
};

/** The program with the sample catalog, and with the hostile one unless it is left out. */
export const start = async (program, { tame = false } = {}) => {
  const folder = mkdtempSync(join(tmpdir(), "almanac-browser-"));
  const sources = { sample: join(project, "deploy/catalog") };
  if (!tame) {
    sources.hostile = join(folder, "hostile");
    mkdirSync(sources.hostile);
    writeFileSync(join(sources.hostile, "catalog.json"), hostile().map((blob) => JSON.stringify(blob)).join("\n"));
  }
  const server = spawn(program, ["serve", ...Object.entries(sources).map(([name, path]) => `${name}=file:${path}`),
    "--data-dir", join(folder, "data"), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0",
    "--log-format", "json"], { stdio: ["ignore", "pipe", "pipe"] });
  const stop = async () => {
    const ended = new Promise((resolve) => server.on("exit", resolve));
    if (server.exitCode === null) {
      server.kill("SIGTERM");
      await ended;
    }
    rmSync(folder, { recursive: true });
  };
  let text = "";
  const address = (service) => {
    const line = text.split("\n").find((line) => line.includes('"listening"') && line.includes(`"${service}"`));
    const found = line && line.match(/"address":"([^"]+)"/);
    return found && `http://${found[1]}`;
  };
  for (const stream of [server.stdout, server.stderr]) stream.on("data", (part) => { text += part; });
  for (let attempt = 0; attempt < 600; attempt += 1) {
    if (server.exitCode !== null) throw new Error(`almanac ended: ${text}`);
    const origin = address("http");
    if (origin && address("admin")) {
      const { items } = await (await fetch(`${origin}/catalogs`)).json();
      const served = items.length === Object.keys(sources).length && items.every(({ state }) => state === "serving");
      if (served) return { origin, admin: address("admin"), stop };
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await stop();
  throw new Error(`the catalogs are not served: ${text}`);
};
