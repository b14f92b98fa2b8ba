// Checks the status page in headless Chromium: all pages, widths and schemes, refresh in place, and no scripts.
// node status_page_check.mjs MODULES CHROMIUM URL PATH…  →  one JSON object on standard output
// A request for /change changes what the pages show.
import { createRequire } from "node:module";

const [modules, chromium, url, ...paths] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const puppeteer = require("puppeteer-core");
const axe = require.resolve("axe-core/axe.min.js");
const { readFileSync } = await import("node:fs");
const rules = readFileSync(axe, "utf-8");

// Return our own words that break across lines. Names of clients may break.
const brokenWords = () => {
  const words = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    if (text.parentElement.closest("bdi, code, .mono, pre, script, style, svg, select")) continue;
    for (const word of text.data.matchAll(/[A-Za-z]+/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((place) => place.top)).size > 1) words.add(word[0]);
    }
  }
  return [...words];
};

const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu"] });
const found = { looks: [], refresh: {}, plain: {} };
try {
  const page = await browser.newPage();
  await page.setBypassCSP(true); // only for axe-core; the server's own policy is checked below
  for (const [width, scheme] of [[1200, "light"], [390, "dark"]]) {
    await page.setViewport({ width, height: 900, isMobile: width < 500 });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    for (const path of paths) {
      await page.goto(url + path);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      const broken = await page.evaluate(brokenWords);
      await page.evaluate(rules);
      const { violations, passes } = await page.evaluate(() => axe.run());
      const bad = violations.filter((v) => ["serious", "critical"].includes(v.impact));
      found.looks.push({ path, width, scheme, wide, broken, passes: passes.length,
        bad: bad.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 120)).slice(0, 3)]) });
    }
  }

  const live = await browser.newPage();
  const refused = [];
  live.on("console", (message) => message.type() === "error" && refused.push(message.text()));
  await live.setViewport({ width: 1200, height: 700 });
  await live.goto(`${url}/?page=2`);
  await live.evaluate(() => {
    globalThis.marked = true;
    for (const part of document.querySelectorAll("details[id]")) part.open = true;
    scrollTo(0, 400);
  });
  const before = await live.evaluate(() => [scrollY, document.getElementById("fresh").textContent.includes("just-came")]);
  await live.evaluate(() => fetch("/change"));
  await live.waitForFunction(() => document.getElementById("fresh").textContent.includes("just-came"), { timeout: 20000 });
  const after = await live.evaluate(() => ({
    scroll: scrollY, same: globalThis.marked === true, open: [...document.querySelectorAll("details[id]")].every((d) => d.open),
  }));
  found.refresh = { before, after, refused };

  await live.goto(url + paths[1]);
  await live.evaluate(() => { document.getElementById("evidence").open = true; });
  found.copy = await live.$eval("[data-copy]", (button) => {
    button.click();
    return { shown: !button.hidden };
  });
  await live.waitForFunction(() => document.querySelector("[data-copy]").textContent === "Copied", { timeout: 5000 });

  const plain = await browser.newPage();
  await plain.setJavaScriptEnabled(false);
  await plain.goto(url + paths[0]);
  found.plain = {
    text: (await plain.$eval("main", (main) => main.innerText)).length,
    reload: await plain.$$eval("noscript meta[http-equiv=refresh], meta[http-equiv=refresh]", (all) => all.length),
  };
  console.log(JSON.stringify(found));
} finally {
  await browser.close();
}
