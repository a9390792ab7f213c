// Looks at the pages in a browser: nothing may break the policy, leave the origin or
// fail a rule of accessibility, with and without scripts, light and dark, and narrow.
//
//     node tests/browser/check.mjs PROGRAM [SCREENSHOTS]
//
// PROGRAM is almanac. With a folder for SCREENSHOTS, each page is kept there as a
// picture. The system's Chromium is used; CHROMIUM names another one.

import { spawn } from "node:child_process";
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

// Packages lie in the folder that NODE_MODULES names, so that none has to lie here.
const modules = process.env.NODE_MODULES ?? join(dirname(fileURLToPath(import.meta.url)), "node_modules");
const require = createRequire(join(modules, "x.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [program, screenshots] = process.argv.slice(2);
if (!program) throw new Error("name the program almanac");
const project = join(dirname(fileURLToPath(import.meta.url)), "../..");
const folder = mkdtempSync(join(tmpdir(), "almanac-browser-"));

// A catalog whose texts would run or move, if any page let them.
const script = "\"'><script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">";
const hostile = [
  { schema: "olm.package", name: "hostile", defaultChannel: "stable", description: script,
    icon: { base64data: Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script><image href="http://example.com/a.png"/></svg>`).toString("base64"), mediatype: "image/png" } },
  { schema: "olm.channel", package: "hostile", name: "stable",
    entries: [...Array(500).keys()].map((at) => ({ name: `hostile.v1.${at}.0`, ...(at > 0 && { replaces: `hostile.v1.${at - 1}.0` }) })) },
  { schema: "olm.channel", package: "hostile", name: script, entries: [{ name: "hostile.v1.0.0" }] },
  ...[...Array(500).keys()].map((at) => ({
    schema: "olm.bundle", package: "hostile", name: `hostile.v1.${at}.0`, image: `example.com/a@sha256:${"0".repeat(64)}`,
    properties: [
      { type: "olm.package", value: { packageName: "hostile", version: `1.${at}.0` } },
      ...(at === 499 ? [
        { type: "olm.gvk", value: { group: "g.example.com", version: "v1", kind: script } },
        { type: "olm.csv.metadata", value: {
          displayName: `${script} \u202eabc`, description: `# ${script}\n\n${"w".repeat(60000)}`,
          keywords: [script], links: [{ name: script, url: "javascript:document.title='ran'" }],
          provider: { name: script }, annotations: { description: script, categories: script, capabilities: script } } },
      ] : []),
    ],
  })),
];
mkdirSync(join(folder, "hostile"));
writeFileSync(join(folder, "hostile", "catalog.json"), hostile.map((blob) => JSON.stringify(blob)).join("\n"));

const server = spawn(program, ["serve", `hostile=file:${folder}/hostile`, `sample=file:${project}/deploy/catalog`,
  "--data-dir", join(folder, "data"), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0",
  "--log-format", "json"], { stdio: ["ignore", "pipe", "pipe"] });

const failures = [];
const fail = (path, what) => {
  failures.push(`${path}: ${what}`);
  console.error(`${path}: ${what}`);
};

/** The origin, once both catalogs are served. */
const started = async () => {
  const address = await new Promise((resolve, reject) => {
    let text = "";
    const read = (part) => {
      text += part;
      for (const line of text.split("\n")) {
        const found = line.includes('"listening"') && line.includes('"http"') && line.match(/"address":"([^"]+)"/);
        if (found) resolve(found[1]);
      }
    };
    server.stdout.on("data", read);
    server.stderr.on("data", read);
    server.on("exit", () => reject(new Error(`almanac ended: ${text}`)));
  });
  const origin = `http://${address}`;
  for (let attempt = 0; attempt < 300; attempt += 1) {
    const reply = await fetch(`${origin}/catalogs`);
    const { items } = await reply.json();
    if (items.length === 2 && items.every(({ state }) => state === "serving")) return origin;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("the catalogs are not served");
};

const ferry = "/catalogs/sample/packages/ferry-operator";
const bad = "/catalogs/hostile/packages/hostile";
const pages = [
  "/", "/search", "/search?q=ferry", "/search?category=Database", "/apis", "/compare", "/changes", "/problems",
  "/mirror", "/mirror?pick=sample/ferry-operator", "/api", "/catalogs/sample", "/packages/ferry-operator", "/nowhere",
  ...["", "/versions", "/versions?from=ferry-operator.v2.0.0", "/updates", "/updates?from=2.0.0", "/apis", "/images",
    "/dependencies", "/install", "/problems", "/history"].map((tab) => ferry + tab),
  ...["", "/versions", "/versions?rows=all", "/updates?from=hostile.v1.0.0", "/apis", "/install",
    "/bundles/hostile.v1.499.0"].map((tab) => bad + tab),
];

const looks = [
  { name: "light", colorScheme: "light", viewport: { width: 1280, height: 900 } },
  { name: "dark", colorScheme: "dark", viewport: { width: 1280, height: 900 } },
  { name: "narrow", colorScheme: "light", viewport: { width: 320, height: 720 } },
  { name: "no script", colorScheme: "light", viewport: { width: 1280, height: 900 }, javaScriptEnabled: false },
];

const visit = async (origin, context, look, path) => {
  const page = await context.newPage();
  page.on("request", (request) => {
    if (!request.url().startsWith(`${origin}/`)) fail(path, `${look.name}: asks ${request.url()}`);
  });
  page.on("console", (message) => {
    const wanted = path === "/nowhere" && message.text().includes("404");
    if (message.type() === "error" && !wanted) fail(path, `${look.name}: ${message.text()}`);
  });
  page.on("pageerror", (error) => fail(path, `${look.name}: ${error.message}`));
  page.on("dialog", (dialog) => {
    fail(path, `${look.name}: opens a dialog`);
    dialog.dismiss();
  });
  await page.goto(origin + path, { waitUntil: "load" });
  if ((await page.title()) === "ran") fail(path, `${look.name}: a script of the catalog ran`);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  if (width > look.viewport.width) fail(path, `${look.name}: is ${width} wide`);
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

/** Search, plan and install by keyboard alone. */
const keyboard = async (origin, browser) => {
  const page = await browser.newPage();
  await page.goto(origin);
  await page.keyboard.press("/");
  await page.keyboard.type("ferry");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/search\?q=ferry/);
  const found = page.locator("main a", { hasText: "Ferry" }).first();
  await found.focus();
  const outline = await found.evaluate((link) => getComputedStyle(link).outlineStyle);
  if (outline === "none") fail("/search", "the focus is not seen");
  await page.keyboard.press("Enter");
  await page.waitForURL(/ferry-operator/);
  await page.goto(`${origin}${ferry}/versions`);
  await page.locator("a.dot").first().focus();
  await page.keyboard.press("ArrowDown");
  const moved = await page.evaluate(() => document.activeElement.classList.contains("dot"));
  if (!moved) fail(`${ferry}/versions`, "an arrow does not move to the next version");
  await page.keyboard.press("Enter");
  await page.waitForURL(/from=/);
  await page.close();
};

try {
  const origin = await started();
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  if (screenshots) mkdirSync(screenshots, { recursive: true });
  for (const { name, ...look } of looks) {
    const context = await browser.newContext({ ...look, bypassCSP: false });
    for (const path of pages) await visit(origin, context, { name, ...look }, path);
    await context.close();
  }
  await keyboard(origin, browser);
  await browser.close();
  console.log(`${pages.length} pages in ${looks.length} looks, ${failures.length} failures`);
} finally {
  server.kill("SIGTERM");
  await new Promise((resolve) => server.on("exit", resolve));
  rmSync(folder, { recursive: true });
}
process.exit(failures.length === 0 ? 0 : 1);
