// almanac with the sample catalog and the hostile one; and the browser.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { write } from "./hostile.mjs";

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

/** The program with the sample catalog, and with the hostile one unless it is left out. */
export const start = async (program, { tame = false } = {}) => {
  const folder = mkdtempSync(join(tmpdir(), "almanac-browser-"));
  const sources = { sample: join(project, "deploy/catalog") };
  if (!tame) {
    sources.hostile = join(folder, "hostile");
    write(sources.hostile);
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
