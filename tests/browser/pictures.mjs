// Makes the pictures of the documentation from the sample catalog.
//
//     node tests/browser/pictures.mjs PROGRAM [FOLDER]
//
// FOLDER is docs/images by default.

import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";

import { launch, project, start } from "./site.mjs";

const [program, into = join(project, "docs/images")] = process.argv.slice(2);
if (!program) throw new Error("name the program almanac");

const packages = "/catalogs/sample/packages";
const pictures = {
  search: "/search?catalog=sample",
  overview: `${packages}/lantern-operator`,
  versions: `${packages}/lantern-operator/versions?from=lantern-operator.v1.0.0&to=lantern-operator.v1.1.1`,
  updates: `${packages}/ferry-operator/updates?from=ferry-operator.v1.4.0&to=ferry-operator.v2.1.0`,
  install: `${packages}/ferry-operator/install`,
  mirror: "/mirror?pick=sample/ferry-operator&pick=sample/lantern-operator",
};

mkdirSync(into, { recursive: true });
const site = await start(program, { tame: true });
try {
  const browser = await launch();
  const page = await browser.newPage({ viewport: { width: 880, height: 600 }, colorScheme: "light" });
  for (const [name, path] of Object.entries(pictures)) {
    const reply = await page.goto(site.origin + path);
    if (reply.status() !== 200) throw new Error(`${path}: ${reply.status()}`);
    const file = join(into, `${name}.png`);
    // Of the graph, what is above it would fill the picture.
    const [top, end] = await page.evaluate((name) => [
      name === "versions" ? document.querySelector("main h2").offsetTop - 8 : 0, document.querySelector("footer").offsetTop,
    ], name);
    await page.screenshot({ path: file, fullPage: true, clip: { x: 0, y: top, width: 880, height: Math.min(end - top, 580) } });
    console.log(`${file}: ${Math.ceil(statSync(file).size / 1000)} kB`);
  }
  await browser.close();
} finally {
  await site.stop();
}
