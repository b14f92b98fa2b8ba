// Opens a page in headless Chromium; measures its width, runs axe-core and optionally takes a picture.
// node page_check.mjs MODULES CHROMIUM URL WIDTH light|dark [PICTURE]  →  one JSON object on standard output
import { createRequire } from "node:module";

const [modules, chromium, url, width, scheme, picture] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const puppeteer = require("puppeteer-core");
const axe = require.resolve("axe-core/axe.min.js");

const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu"] });
try {
  const page = await browser.newPage();
  await page.setViewport({ width: Number(width), height: 900, deviceScaleFactor: 1, isMobile: Number(width) < 500 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  const requests = [];
  page.on("request", (request) => requests.push(request.url()));
  await page.goto(url);
  const size = await page.evaluate(() => ({
    wide: document.documentElement.scrollWidth,
    screen: document.documentElement.clientWidth,
    // Elements that extend beyond the screen.
    out: [...document.querySelectorAll("body *")]
      .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest("svg, thead"))
      .map((e) => e.outerHTML.slice(0, 120)),
  }));
  if (picture) await page.screenshot({ path: picture, fullPage: true });
  await page.addScriptTag({ path: axe });
  const found = await page.evaluate(() => axe.run());
  const violations = found.violations.map((v) => ({
    id: v.id, impact: v.impact, where: v.nodes.map((n) => n.html.slice(0, 160)).slice(0, 5),
  }));
  const sheets = requests.filter((r) => r !== url && !r.startsWith("file:") && !r.startsWith("data:"));
  console.log(JSON.stringify({ ...size, violations, passes: found.passes.length, requests: sheets }));
} finally {
  await browser.close();
}
