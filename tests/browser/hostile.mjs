// A catalog whose texts would run, move or grow without an end, if any page let them.
//
//     node tests/browser/hostile.mjs FOLDER
//
// writes it into FOLDER, for `benches/pages.py`.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const script = "\"'><script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">";
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

/** Writes the catalog into a folder. */
export const write = (folder) => {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "catalog.json"), hostile().map((blob) => JSON.stringify(blob)).join("\n"));
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = process.argv[2];
  if (!folder) throw new Error("name a folder");
  write(folder);
}
