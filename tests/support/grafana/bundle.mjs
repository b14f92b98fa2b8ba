// Bundles draw.jsx with Grafana's components, React and Grafana's fonts into one script and one style sheet.
// node bundle.mjs MODULES FOLDER  →  FOLDER/draw.js, FOLDER/draw.css
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [modules, folder] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const here = dirname(fileURLToPath(import.meta.url));
// Grafana imports this CommonJS module in two ways, and esbuild supports only one of them.
const scrollbars = {
  name: "scrollbars",
  setup(build) {
    const name = "react-custom-scrollbars-2";
    build.onResolve({ filter: new RegExp(`^${name}$`) }, () => ({ path: name, namespace: "both" }));
    build.onLoad({ filter: /.*/, namespace: "both" }, () => ({
      contents: `const { Scrollbars } = require("${name}/lib/index.js"); export { Scrollbars }; export default Scrollbars;`,
      resolveDir: modules,
    }));
  },
};
await require("esbuild").build({
  entryPoints: [join(here, "draw.jsx")],
  outdir: folder,
  bundle: true,
  minify: true,
  format: "iife",
  nodePaths: [modules],
  plugins: [scrollbars],
  define: { "process.env.NODE_ENV": '"production"' },
  loader: { ".woff2": "dataurl", ".woff": "empty", ".ttf": "dataurl", ".svg": "dataurl", ".png": "dataurl" },
  logLevel: "error",
});
