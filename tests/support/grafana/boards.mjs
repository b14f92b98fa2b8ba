// Shows dashboards one after another in headless Chromium, and prints what is visible in each.
// node boards.mjs PUPPETEER_MODULES CHROMIUM BUNDLE < {"boards": [{"name", "board", "asked", "picture"}]}  →  {name: [panels]}
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, chromium, bundle] = process.argv.slice(2);
const puppeteer = createRequire(`${modules}/`)("puppeteer-core");
const HIGH = 1050; // height of a picture (px), small enough for less than 150 kB
const { boards } = JSON.parse(readFileSync(0, "utf-8"));
// The page is served, because Grafana's components need an origin to store choices.
const empty = '<!doctype html><meta charset="utf-8"><title>dashboards</title><link rel="icon" href="data:,"><div id="board"></div>';
const server = createServer((_, response) => response.setHeader("Content-Type", "text/html").end(empty)).listen(0, "127.0.0.1");
const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu"], protocolTimeout: 300_000 });
const results = {};
try {
  const page = await browser.newPage();
  const broken = [];
  page.on("pageerror", (error) => broken.push(String(error.stack).slice(0, 1500)));
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.addStyleTag({ path: join(bundle, "draw.css") });
  await page.addScriptTag({ path: join(bundle, "draw.js") });
  if (broken.length) throw new Error(broken.join("\n"));
  for (const { name, board, asked, picture } of boards) {
    await page.setViewport({ width: asked.width, height: 1000 });
    const panels = await page.evaluate((...given) => draw(...given), board, asked);
    results[name] = { panels, broken: broken.splice(0) };
    if (picture) {
      const { height } = await (await page.$("#board")).boundingBox();
      const clip = { x: 0, y: 0, width: asked.width, height: asked.short ? Math.min(height, HIGH) : height };
      await page.screenshot({ path: picture, type: "webp", quality: 80, clip });
    }
  }
  console.log(JSON.stringify(results));
} finally {
  await browser.close();
  server.close();
}
