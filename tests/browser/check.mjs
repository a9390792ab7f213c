// Looks at the pages in a browser: nothing may break the policy, leave the origin or
// fail a rule of accessibility, with and without scripts, light and dark, narrow and
// with large text. `jobs.mjs` does what people do.
//
//     node tests/browser/check.mjs PROGRAM [SCREENSHOTS]
//
// PROGRAM is almanac. With a folder for SCREENSHOTS, each page is kept there as a
// picture. The system's Chromium is used; CHROMIUM names another one.

import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { checkGraph, checkJobs, checkKeyboard, checkNarrow, checkSameWay } from "./jobs.mjs";
import { launch, require, start } from "./site.mjs";
import { checkTrees } from "./trees.mjs";

const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [program, screenshots] = process.argv.slice(2);
if (!program) throw new Error("name the program almanac");

const failures = [];
const fail = (path, what) => {
  failures.push(`${path}: ${what}`);
  console.error(`${path}: ${what}`);
};

const ferry = "/catalogs/sample/packages/ferry-operator";
const lantern = "/catalogs/sample/packages/lantern-operator";
const hostile = "/catalogs/hostile/packages/hostile";
const pages = [
  "/", "/search", "/search?q=ferry", "/search?category=Database", "/apis", "/compare", "/changes", "/problems",
  "/compare?catalog=sample&catalog=hostile", "/compare/diff?from=sample&to=hostile",
  "/mirror", "/mirror?pick=sample/ferry-operator&pick=hostile/hostile", "/api", "/catalogs/sample", "/catalogs/hostile",
  "/packages/ferry-operator", "/packages/hostile?installed=1.2.0", "/packages/ferry-operator?installed=9.9.9&min=2.0.0", "/apis?q=crosing",
  ...["", "/versions", "/versions?from=ferry-operator.v2.0.0", "/versions?view=table", "/updates", "/updates?from=2.0.0",
    "/apis", "/images", "/dependencies", "/install", "/problems", "/history"].map((tab) => ferry + tab),
  `${lantern}/versions`, `${lantern}/bundles/lantern-operator.v1.1.1`,
  ...["", "/versions", "/versions?rows=all", "/versions?from=hostile.v1.3.0&to=hostile.v1.470.0",
    "/updates?from=hostile.v1.0.0", "/apis", "/install", "/bundles/hostile.v1.499.0"].map((tab) => hostile + tab),
  `${ferry}/versions?from=ferry-operator.v1.4.0&to=ferry-operator.v2.1.0`, `${ferry}/updates?from=1.4.0`,
  "/catalogs/sample/api/v1/graphql", "/mirror?pick=sample/ferry-operator&to=mirror.example.com/ops",
  ...["wide/versions?channels=all&rows=all", "tangled", "tangled/versions?rows=all", "tangled/versions?rules=v1&rows=all",
    "tangled/problems", "skipping/versions", "skipping/versions?rows=all&from=skipping.v1.3.0&to=skipping.v1.499.0",
    "skipping/updates?from=skipping.v1.0.0", "long", "long/versions", "long/updates", "uses", "entities",
  ].map((path) => `/catalogs/hostile/packages/${path}`),
];

// Pages of errors. The browser tells each in its console.
const errors = [
  "/nowhere", "/catalogs/sample/packages/fery-operator", `${ferry}/verions`, `${ferry}/updates?from=nine`, `${hostile}/versions?rows=some`,
  "/problems?code=nope", "/mirror?pick=sample/fery-operator&pick=nonsense", "/mirror?channel=v2",
];

const looks = [
  { name: "light", colorScheme: "light", viewport: { width: 1280, height: 900 } },
  { name: "dark", colorScheme: "dark", viewport: { width: 1280, height: 900 } },
  { name: "narrow", colorScheme: "light", viewport: { width: 320, height: 720 } },
  { name: "large text", colorScheme: "light", viewport: { width: 1280, height: 900 }, text: "200%" },
  { name: "no script", colorScheme: "light", viewport: { width: 1280, height: 900 }, javaScriptEnabled: false },
];

/** A page that stops the browser would stop this program, too. */
const within = (milliseconds, path, work) => {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${path} takes longer than ${milliseconds / 1000} s`)), milliseconds);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
};

/** One page in one look. */
const visit = async (origin, context, look, path) => {
  const page = await context.newPage();
  page.on("request", (request) => {
    if (!request.url().startsWith(`${origin}/`)) fail(path, `${look.name}: asks ${request.url()}`);
  });
  // A breach of the policy is an error of the console.
  page.on("console", (message) => {
    const wanted = errors.includes(path) && message.text().includes("the server responded with a status of 4");
    if (message.type() === "error" && !wanted) fail(path, `${look.name}: ${message.text()}`);
  });
  page.on("pageerror", (error) => fail(path, `${look.name}: ${error.message}`));
  page.on("dialog", (dialog) => {
    fail(path, `${look.name}: opens a dialog`);
    dialog.dismiss();
  });
  await page.goto(origin + path, { waitUntil: "load" });
  if (look.text) await page.evaluate((size) => { document.documentElement.style.fontSize = size; }, look.text);
  if ((await page.title()) === "ran") fail(path, `${look.name}: a script of the catalog ran`);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  if (width > look.viewport.width) fail(path, `${look.name}: is ${width} wide`);
  const [region] = await page.evaluate(() => [...document.querySelectorAll(".scroll")].map((one) => one.scrollWidth).filter((one) => one > 8000));
  if (region) fail(path, `${look.name}: has a region of ${region} pixels`);
  if (look.name !== "no script") {
    // The policy of the page forbids scripts of others; axe runs beside it.
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    for (const { id, help, nodes } of violations) {
      const where = nodes.slice(0, 3).map(({ target }) => target.join(" ")).join("; ");
      fail(path, `${look.name}: ${id} (${help}): ${where}`);
    }
  }
  if (screenshots) {
    const name = `${path.replace(/[^a-z0-9]+/gi, "_")}-${look.name.replace(" ", "-")}.png`;
    await page.screenshot({ path: join(screenshots, name), fullPage: false });
  }
  await page.close();
};

const site = await start(program);
try {
  const { origin } = site;
  const browser = await launch();
  if (screenshots) mkdirSync(screenshots, { recursive: true });
  const waiting = [...looks];
  const visitAll = async () => {
    for (let look = waiting.shift(); look; look = waiting.shift()) {
      const { name, text, ...options } = look;
      const context = await browser.newContext(options);
      for (const path of [...pages, ...errors]) await within(60000, path, visit(origin, context, look, path));
      await within(60000, "the status", visit(site.admin, context, look, "/#status"));
      await context.close();
    }
  };
  // Two looks at a time: each has a process of the browser.
  await Promise.all([visitAll(), visitAll()]);
  for (const check of [checkJobs, checkSameWay, checkNarrow, checkGraph, checkKeyboard, checkTrees]) {
    const checking = check(origin, browser, fail).catch((error) => fail(check.name, error.message));
    await within(120000, check.name, checking);
  }
  await browser.close();
  console.log(`${pages.length + errors.length + 1} pages in ${looks.length} looks, ${failures.length} failures`);
} finally {
  await site.stop();
}
// Without this, a browser that hangs would keep the program.
process.exit(failures.length === 0 ? 0 : 1);
