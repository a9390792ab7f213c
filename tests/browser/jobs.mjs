// What people do on the pages: each job without a script, and some by keyboard alone.

const ferry = "/catalogs/sample/packages/ferry-operator";
const lantern = "/catalogs/sample/packages/lantern-operator";

const content = (page) => page.locator("main").innerText();

/** Each question that the pages answer, by links and forms alone. */
export const checkJobs = async (origin, browser, fail) => {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  const shows = async (job, ...parts) => {
    const text = await content(page);
    for (const part of parts) if (!text.includes(part)) fail(page.url(), `${job}: ${part} is missing`);
  };
  const find = async (words) => {
    await page.goto(origin);
    await page.fill("#words", words);
    await page.click("form.find button");
  };

  await find("ferry");
  await page.click("main .name a");
  await shows("overview", "Ferry", "carries messages");
  await page.click("nav.tabs >> text=Install");
  await shows("install", "kind: Subscription", "kind: ClusterExtension");

  await page.click("nav.tabs >> text=Updates");
  await page.selectOption("select[name=from]", { index: 2 });
  await page.click("main form button");
  await shows("plan", "step", "→");

  await page.goto(`${origin}/packages/ferry-operator?installed=1.4.0`);
  await shows("which catalog", "sample", "v2");
  await page.goto(`${origin}/`);
  await page.click("text=Changes");
  await shows("changes", "Changes");

  await page.goto(`${origin}/mirror?pick=sample/ferry-operator`);
  await shows("mirror", "images", "ImageSetConfiguration");
  await page.fill("input[name=package]", "lantern-operator");
  await page.fill("input[name=min]", "1.0.0");
  await page.click("main form button");
  await shows("a second package in the basket", "2 packages", "sample/lantern-operator", "1.0.0 …");
  await page.goto(`${origin}${ferry}/updates?from=1.4.O`);
  await page.fill("input[name=from]", "1.4.0");
  await page.click("main form button");
  await shows("a mistyped version", "1 step", "head of the default channel");

  await page.goto(`${origin}/catalogs/sample/packages/ferry-operatr`);
  await page.locator("main a", { hasText: "ferry-operator" }).first().click();
  await shows("a name that is nearly right", "Ferry");
  await page.goto(`${origin}/catalogs/hostile/packages/tangled`);
  await page.click("nav.tabs >> text=Problems");
  await shows("left out", "error");

  await page.goto(`${origin}/apis?q=ferry`);
  await page.click("main tbody a");
  await shows("who provides a kind", "ferry-operator");

  await page.goto(`${origin}${lantern}/versions`);
  const dots = page.locator("td a.dot");
  await dots.last().click();
  await page.locator("td a.dot").first().click();
  if (!/from=.*to=/.test(page.url())) fail(page.url(), "two dots make no way");
  await shows("graph", "step");
  await page.goto(`${origin}${ferry}/dependencies`);
  await shows("dependencies", "Needs");
  await context.close();
};

/** The same steps at one address, with and without a script. */
export const checkSameWay = async (origin, browser, fail) => {
  const paths = [
    "/catalogs/hostile/packages/hostile/versions?from=hostile.v1.3.0&to=hostile.v1.470.0",
    "/catalogs/hostile/packages/hostile/updates?from=hostile.v1.3.0&to=hostile.v1.470.0",
  ];
  for (const path of paths) {
    const seen = [];
    for (const javaScriptEnabled of [true, false]) {
      const context = await browser.newContext({ javaScriptEnabled });
      const page = await context.newPage();
      await page.goto(origin + path);
      // A fold that is closed has no inner text.
      const steps = await page.locator("ol.steps").evaluate((list) => list.textContent).catch(() => "");
      const way = await page.locator(".edges path.way").count();
      seen.push(`${steps} ${way}`);
      await context.close();
    }
    if (!seen[0].includes("hostile.v1.470.0") || seen[0] !== seen[1]) fail(path, "shows another way without a script");
  }
};

/** On a narrow screen, only the region of the graph scrolls. */
export const checkNarrow = async (origin, browser, fail) => {
  const path = "/catalogs/hostile/packages/wide/versions?channels=all&rows=all";
  const context = await browser.newContext({ viewport: { width: 320, height: 720 } });
  const page = await context.newPage();
  await page.goto(origin + path);
  const [heads, rows, own, region, inner] = await page.evaluate(() => {
    const area = document.querySelector(".matrix");
    return [document.querySelectorAll("th.channel").length, document.querySelectorAll(".canvas tbody tr").length,
      document.documentElement.scrollWidth, area.clientWidth, area.scrollWidth];
  });
  if (heads !== 38 || rows !== 60) fail(path, `has ${heads} channels and ${rows} versions`);
  if (own > 320 || inner <= region) fail(path, `the page is ${own} wide, the region ${inner} in ${region}`);
  await context.close();
};

/** Keys, size, and the picture of the graph. */
export const checkGraph = async (origin, browser, fail) => {
  const page = await browser.newPage();
  // The way has a step by a range; it and the key have all their lines.
  const ranged = `${ferry}/versions?from=ferry-operator.v1.4.0&to=ferry-operator.v2.1.0`;
  await page.goto(origin + ranged);
  const lines = await page.evaluate(() => [...document.querySelectorAll(".edges path, .sample path")].map((path) =>
    [path.getAttribute("class"), getComputedStyle(path).display !== "none" && path.checkVisibility()]));
  for (const [name, isShown] of lines) if (!isShown) fail(ranged, `does not draw the line ${name}`);
  if (!lines.some(([name]) => name === "jump way")) fail(ranged, "has no step by a range");
  const path = "/catalogs/hostile/packages/tangled/versions?rows=all";
  await page.goto(origin + path);
  const place = () => page.evaluate(() => {
    const cell = document.activeElement.closest("td, th");
    return cell && `${cell.parentElement.rowIndex} ${[...cell.parentElement.children].indexOf(cell)}`;
  });
  await page.locator("tr:nth-child(2) a.dot").first().focus();
  const begin = await place();
  for (const [key, wanted] of [["ArrowDown", "3 1"], ["]", "2 1"], ["[", "3 1"], ["ArrowUp", "2 1"]]) {
    await page.keyboard.press(key);
    const found = await place();
    if (found !== wanted) fail(path, `${key} leads from ${begin} to ${found}`);
  }
  const far = await page.locator(".edges .far").count();
  if (far === 0) fail(path, "the edges of others do not fade");
  const width = () => page.locator(".canvas tbody th").first().evaluate((label) => label.getBoundingClientRect().width);
  const before = await width();
  await page.keyboard.press("+");
  if ((await width()) <= before) fail(path, "+ does not enlarge");
  await page.keyboard.press("0");
  if (Math.abs((await width()) - before) > 1) fail(path, "0 does not restore the size");
  await page.keyboard.press("Enter");
  await page.waitForURL(/from=/);
  const kept = await place();
  if (kept !== "2 1") fail(path, `the selected dot loses the focus: ${kept}`);
  await page.keyboard.press("Escape");
  await page.waitForURL((url) => !url.search.includes("from="));

  for (const name of ["tangled", "hostile"]) {
    await page.goto(`${origin}/catalogs/hostile/packages/${name}/versions?rows=all`);
    const waiting = page.waitForEvent("download");
    await page.click("#png");
    const download = await waiting;
    const parts = [];
    for await (const part of await download.createReadStream()) parts.push(part);
    const png = Buffer.concat(parts);
    const sides = [png.readUInt32BE(16), png.readUInt32BE(20)];
    if (download.suggestedFilename() !== `${name}.png` || png.toString("latin1", 1, 4) !== "PNG") fail(path, "makes no PNG");
    if (sides.some((side) => side < 100 || side > 8192)) fail(path, `makes a PNG of ${sides}`);
  }
  await page.close();
};

/** Search, plan, install and mirror by keyboard, the focus always in sight. */
export const checkKeyboard = async (origin, browser, fail) => {
  const page = await browser.newPage();
  /** Presses Tab until an element has the focus; each on the way has to show it. */
  const tabTo = async (selector) => {
    for (let press = 0; press < 120; press += 1) {
      await page.keyboard.press("Tab");
      const state = await page.evaluate((selector) => {
        const element = document.activeElement;
        if (element === document.body) return { body: true };
        const { outlineStyle, outlineWidth } = getComputedStyle(element);
        const box = element.getBoundingClientRect();
        return {
          found: element.matches(selector),
          shown: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 && box.width > 0 && box.bottom > 0 && box.top < innerHeight,
          text: element.outerHTML.slice(0, 80),
        };
      }, selector);
      if (!state.body && !state.shown) fail(page.url(), `the focus is not seen: ${state.text}`);
      if (state.found) return;
    }
    fail(page.url(), `${selector} is not reached by Tab`);
  };

  await page.goto(origin);
  await page.keyboard.press("/");
  await page.keyboard.type("ferry");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/search\?q=ferry/);
  await tabTo("main .name a");
  await page.keyboard.press("Enter");
  await page.waitForURL(/ferry-operator/);

  await page.goto(`${origin}${ferry}/updates`);
  await tabTo("select[name=from]");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await tabTo("main form button");
  await page.keyboard.press("Enter");
  await page.waitForURL(/from=[^&]/);
  await page.locator("ol.steps, .notice").first().waitFor();

  await page.goto(`${origin}${ferry}/install`);
  await tabTo("select[name=channel]");
  await page.keyboard.press("ArrowDown");
  await tabTo("main form button");
  await page.keyboard.press("Enter");
  await page.waitForURL(/channel=/);
  await page.getByText("kind: Subscription").waitFor();

  await page.goto(`${origin}/mirror?pick=sample/lantern-operator`);
  await tabTo("main form button");
  await page.keyboard.press("Enter");
  await page.waitForLoadState();
  if (!(await content(page)).includes("images")) fail("/mirror", "shows no plan");

  await page.goto(`${origin}${ferry}/versions`);
  await tabTo("a.dot");
  await page.keyboard.press("Enter");
  await page.waitForURL(/from=/);
  await page.close();
};
