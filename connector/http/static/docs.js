// Shows openapi.json. Texts go into the page as texts, never as markup.
"use strict";

const byId = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const nameOf = (reference) => reference.split("/").pop();

// What an attribute takes, in a few words.
function typeOf(schema) {
  if (schema.$ref) return nameOf(schema.$ref);
  const types = [].concat(schema.type || []);
  if (types.includes("array")) return `list of ${typeOf(schema.items)}`;
  const parts = (schema.anyOf || []).filter((part) => part.type !== "null" && part.maxLength !== 0);
  if (parts.length) return typeOf(parts[0]);
  const kind = schema.pattern ? "date" : types[0] === "string" ? "text" : types[0];
  if (kind === "integer" && schema.maximum < 2 ** 31 - 1) {
    return schema.minimum < 0 ? `integer, at most ${schema.maximum}` : `integer, ${schema.minimum} to ${schema.maximum}`;
  }
  return schema.maxLength ? `${kind}, at most ${schema.maxLength} characters` : kind;
}

function childOf(schema) {
  const inner = schema.items || (schema.anyOf || []).find((part) => part.$ref) || schema;
  return inner.$ref ? nameOf(inner.$ref) : null;
}

// One table for the object, and one for each object that it holds.
function tables(schemas, name, seen = new Set([name])) {
  const rows = [], children = [], required = schemas[name].required || [];
  for (const [attribute, schema] of Object.entries(schemas[name].properties)) {
    const said = [required.includes(attribute) ? "Required." : "", schema.description, "default" in schema ? `Default: ${JSON.stringify(schema.default)}.` : ""];
    rows.push(make("tr", {},
      make("td", {}, attribute), make("td", { class: "type" }, typeOf(schema)),
      make("td", {}, said.filter(Boolean).join(" "))));
    const child = childOf(schema);
    if (child && !seen.has(child)) { seen.add(child); children.push(child); }
  }
  const head = make("thead", {}, make("tr", {},
    make("th", { scope: "col" }, "Attribute"), make("th", { scope: "col" }, "Takes"), make("th", { scope: "col" }, "")));
  return [
    make("h3", {}, name),
    make("div", { class: "scroll" }, make("table", {}, head, make("tbody", {}, ...rows))),
    ...children.flatMap((child) => tables(schemas, child, seen)),
  ];
}

function answers(responses) {
  const rows = Object.entries(responses).map(([status, response]) =>
    make("tr", {}, make("td", {}, status), make("td", {}, response.description)));
  return make("details", { class: "answers" }, make("summary", {}, "Answers"),
    make("div", { class: "scroll" }, make("table", {}, make("tbody", {}, ...rows))));
}

// The form of the console that makes this request. The page names the console only where there is one.
function trial(operation) {
  const place = document.querySelector("#trial a"), [object, verb] = operation.operationId.split(".");
  if (!place) return [];
  const asked = new URLSearchParams({ object, verb });
  return [make("p", {}, make("a", { href: `${place.pathname}?${asked}` }, "Make this request in the console"))];
}

// What a call takes: a message of a queue says its media types, a request its object.
function taken(operation, schemas) {
  const types = operation.requestBody.content, content = types["application/json"];
  if (!content || !content.schema) {
    const headers = operation.parameters.map((one) => make("li", {}, `${one.name}: ${one.description}`));
    return [make("p", {}, `${operation.summary}. ${operation.description}`), make("h3", {}, "Content-Type"),
      make("p", {}, Object.keys(types).join(", ")), make("h3", {}, "Headers"), make("ul", {}, ...headers)];
  }
  return [...trial(operation), ...tables(schemas, nameOf(content.schema.$ref)),
    make("h3", {}, "Example"), make("pre", { tabindex: "0" }, JSON.stringify(content.example, null, 2))];
}

function request(path, operation, schemas) {
  const inside = make("div", { class: "inside" });
  const details = make("details", { class: "request", id: operation.operationId },
    make("summary", {}, make("span", { class: "method" }, "POST"), make("span", { class: "path" }, path)), inside);
  details.addEventListener("toggle", () => {
    if (details.open && !inside.hasChildNodes()) {
      inside.append(...taken(operation, schemas), answers(operation.responses));
    }
  });
  return details;
}

function openNamed() {
  const target = byId(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) {
    target.open = true;
    target.querySelector("summary").focus({ preventScroll: true });
    target.scrollIntoView();
  }
}

function find(words) {
  for (const item of document.querySelectorAll("[data-name]")) {
    item.hidden = !item.dataset.name.toLowerCase().includes(words.trim().toLowerCase());
  }
}

function show(description) {
  byId("introduction").textContent = description.info.description;
  const schemas = description.components.schemas;
  for (const tag of description.tags) {
    const requests = Object.entries(description.paths).filter(([, item]) => item.post.tags[0] === tag.name);
    const names = requests.map(([, item]) => item.post.operationId).join(" ");
    byId("requests").append(make("section", { "data-name": names, "aria-label": tag.name },
      make("h2", {}, tag.name, make("small", {}, tag.description)),
      ...requests.map(([path, item]) => request(path, item.post, schemas))));
    byId("contents").append(make("li", { "data-name": names }, make("strong", {}, tag.name),
      make("ul", {}, ...requests.map(([path, item]) =>
        make("li", {}, make("a", { href: `#${item.post.operationId}` }, nameOf(path)))))));
  }
  if (!description.tags.length) complain("No business object has a verb: there is nothing to ask for.");
}

function complain(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = false;
}

async function start() {
  byId("base").textContent = location.origin;
  byId("find").addEventListener("input", (event) => find(event.target.value));
  addEventListener("hashchange", openNamed);
  try {
    const response = await fetch("/openapi.json");
    if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
    show(await response.json());
    openNamed();
  } catch (error) {
    complain(`openapi.json cannot be shown: ${error.message}`);
  } finally {
    byId("requests").setAttribute("aria-busy", "false");
  }
}

start();
