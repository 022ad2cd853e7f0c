// Draws the operations of openapi.json. It writes text only, never markup.
"use strict";

const make = (name, text, ...children) => {
  const e = document.createElement(name);
  if (text !== undefined && text !== null) e.textContent = text;
  e.append(...children);
  return e;
};

// resolve follows a reference within the document.
const resolve = (doc, schema) =>
  schema && schema.$ref ? schema.$ref.slice(2).split("/").reduce((at, key) => at[key], doc) : schema || {};

// kind says in a few words what values a schema takes.
const kind = (doc, schema) => {
  const s = resolve(doc, schema);
  const words = [[].concat(s.type || "any").join(" or ")];
  if (s.type === "array" || (s.items && s.type)) words.push("of " + kind(doc, s.items));
  if (s.enum) words.push("(" + s.enum.join(" | ") + ")");
  if (s.format) words.push(s.format);
  if (s.minimum !== undefined) words.push("≥ " + s.minimum);
  if (s.maximum !== undefined) words.push("≤ " + s.maximum);
  if (s.maxLength !== undefined) words.push("≤ " + s.maxLength + " characters");
  if (s.patternDescription) words.push("(" + s.patternDescription + ")");
  if (s.default !== undefined) words.push("default " + s.default);
  return words.join(" ");
};

const row = (doc, name, schema, required, doc2) => make("tr", null,
  make("td", null, make("code", name)),
  make("td", required ? "required" : ""),
  make("td", kind(doc, schema)),
  make("td", doc2 || resolve(doc, schema).description || ""));

const table = (title, rows) => rows.length ? [make("h4", title), make("table", null, ...rows)] : [];

// fields are the rows of an object's properties, one level of inner objects with them.
const fields = (doc, schema, prefix = "") => {
  let s = resolve(doc, schema);
  if (s.type === "array") { prefix += "[]."; s = resolve(doc, s.items); }
  return Object.entries(s.properties || {}).flatMap(([name, p]) => [
    row(doc, prefix + name, p, (s.required || []).includes(name), p.description),
    ...(prefix === "" && (p.$ref || (p.items && p.items.$ref)) ? fields(doc, p, name + (p.items ? "" : ".")) : []),
  ]);
};

const body = (doc, content) => {
  const media = Object.values(content || {})[0];
  return media && media.schema ? fields(doc, media.schema) : [];
};

const operation = (doc, method, path, op) => {
  const inputs = (op.parameters || []).map((p) => row(doc, p.name + " (" + p.in + ")", p.schema, p.required, p.description));
  const answers = Object.entries(op.responses || {}).map(([status, r]) => make("tr", null,
    make("td", null, make("code", status)), make("td", r.description || "")));
  const usual = (op.responses || {})["200"];
  const details = make("details", null,
    make("summary", null, make("b", method.toUpperCase()), " ", make("code", path), " ", make("span", op.summary)),
    make("p", op.description),
    ...table("Parameters", inputs),
    ...table("Body", body(doc, op.requestBody && op.requestBody.content)),
    ...table("Answer", body(doc, usual && usual.content)),
    ...table("Statuses", answers));
  details.id = op.operationId;
  return details;
};

const draw = (doc) => {
  document.getElementById("about").textContent = doc.info.description;
  const groups = new Map();
  for (const [path, item] of Object.entries(doc.paths)) {
    for (const [method, op] of Object.entries(item)) {
      const tag = (op.tags || ["about"])[0];
      if (!groups.has(tag)) groups.set(tag, make("section", null, make("h2", tag)));
      groups.get(tag).append(operation(doc, method, path, op));
    }
  }
  document.getElementById("operations").replaceChildren(...groups.values());
  const wanted = document.getElementById(location.hash.slice(1));
  if (wanted) { wanted.open = true; wanted.scrollIntoView(); }
};

fetch("openapi.json")
  .then((r) => r.json())
  .then(draw)
  .catch(() => document.getElementById("operations").replaceChildren(make("p", "openapi.json could not be read.")));
