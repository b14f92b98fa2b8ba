// Makes the JSON schema of a dashboard from Grafana's published types; unknown fields are not allowed.
// node schema.mjs MODULES PACKAGE  →  JSON schema
import { readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(`${process.argv[2]}/`);
const { createGenerator } = require("ts-json-schema-generator");
const dist = join(process.argv[2], process.argv[3], "dist");
const [path] = readdirSync(dist, { recursive: true }).filter((name) => /raw\/dashboard\/x\/.*types\.gen\.d\.ts$/.test(name));
const schema = createGenerator({ path: join(dist, path), type: "Dashboard", skipTypeCheck: true, additionalProperties: false });
console.log(JSON.stringify(schema.createSchema("Dashboard")));
