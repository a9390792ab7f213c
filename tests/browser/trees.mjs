// What a screen reader meets on a page: roles, names and states, beside those that were
// read by a person before. UPDATE_TREES writes them anew.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = join(dirname(fileURLToPath(import.meta.url)), "trees");
const packages = "/catalogs/sample/packages";
const pages = {
  versions: `${packages}/lantern-operator/versions`,
  updates: `${packages}/ferry-operator/updates?from=ferry-operator.v1.4.0&to=ferry-operator.v2.1.0`,
  install: `${packages}/ferry-operator/install`,
  error: `${packages}/ferry-operator/updates?from=nine&rules=v1`,
};

/** The pages have the roles, names and states that they had. */
export const checkTrees = async (origin, browser, fail) => {
  const page = await browser.newPage();
  for (const [name, path] of Object.entries(pages)) {
    await page.goto(origin + path);
    const tree = `${await page.locator("main").ariaSnapshot()}\n`;
    const file = join(folder, `${name}.yml`);
    if (process.env.UPDATE_TREES) {
      mkdirSync(folder, { recursive: true });
      writeFileSync(file, tree);
    }
    const wanted = readFileSync(file, "utf8").split("\n");
    const found = tree.split("\n");
    const at = found.findIndex((line, number) => line !== wanted[number]);
    if (at >= 0 || found.length !== wanted.length) {
      fail(path, `line ${at + 1} of its tree is ${found[at]}, and was ${wanted[at]} (${file})`);
    }
  }
  await page.close();
};
