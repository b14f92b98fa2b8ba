// Runs the transformations of panels on data frames in Grafana's own code.
// node transform.mjs MODULES < [{"frames": […], "transformations": […]}]  →  for each input a list of frames {"field": [values]}
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(`${process.argv[2]}/`);
const { Window } = require("happy-dom");
const browser = new Window({ url: "http://localhost/" });
for (const name of ["document", "navigator", "localStorage", "location", "HTMLElement", "Element", "Node", "DOMParser"]) {
  Object.defineProperty(globalThis, name, { value: browser[name], configurable: true, writable: true });
}
globalThis.window = browser;

const data = require("@grafana/data");
// standardTransformers lists one transformation under two names, so remove duplicates.
const known = [...new Set(Object.values(data.standardTransformers))];
data.standardTransformersRegistry.setInit(() =>
  known.map((transformation) => ({ id: transformation.id, name: transformation.name, transformation, editor: null })));

const answers = [];
for (const { frames, transformations } of JSON.parse(readFileSync(0, "utf-8"))) {
  const made = await new Promise((resolve, reject) =>
    data.transformDataFrame(transformations, frames.map((frame) => data.toDataFrame(frame))).subscribe({ next: resolve, error: reject }));
  answers.push(made.map((frame) =>
    Object.fromEntries(frame.fields.map((field) => [data.getFieldDisplayName(field, frame, made), [...field.values]]))));
}
console.log(JSON.stringify(answers));
process.exit(0);
