
"use strict";
const at = (id) => document.getElementById(id);
const path = location.pathname;
const catalog = decodeURIComponent(path.split("/")[2] || "");
const SUMMARY = "{\n  summary {\n    totalSchemas\n    schemas { name totalObjects totalFields }\n  }\n}\n";
const INTROSPECTION = `query Introspection { __schema { queryType { name } types { kind name description
  fields { name description args { name description type { ...T } defaultValue } type { ...T } } } } }
  fragment T on __Type { kind name ofType { kind name ofType { kind name ofType { kind name } } } }`;

function say(text, bad) {
  at("status").textContent = text;
  at("status").className = bad ? "bad" : "";
}

async function ask(body) {
  const reply = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await reply.text();
  if (!reply.ok) throw new Error(reply.status + ": " + text.trim());
  return JSON.parse(text);
}

let running = 0;

async function run() {
  const mine = ++running;
  const body = { query: at("query").value };
  const operation = at("operation").value.trim();
  if (operation) body.operationName = operation;
  try {
    const variables = at("variables").value.trim();
    if (variables) body.variables = JSON.parse(variables);
  } catch (error) {
    return say("The variables are no JSON: " + error.message, true);
  }
  say("Asking …");
  const start = performance.now();
  try {
    const answer = await ask(body);
    if (mine !== running) return;
    at("answer").textContent = JSON.stringify(answer, null, 2);
    const count = (answer.errors || []).length;
    const errors = count === 0 ? "" : count === 1 ? ", 1 error" : ", " + count + " errors";
    say(Math.round(performance.now() - start) + " ms" + errors, count > 0);
  } catch (error) {
    if (mine === running) say(error.message, true);
  }
}

function written(type) {
  if (type.kind === "NON_NULL") return written(type.ofType) + "!";
  if (type.kind === "LIST") return "[" + written(type.ofType) + "]";
  return type.name;
}

function inner(type) {
  return type.ofType ? inner(type.ofType) : type;
}

function element(name, text) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  return made;
}

/* All fields of a type, those that are objects with their own. */
function selection(types, name, indent) {
  const fields = (types.get(name).fields || []).map((field) => {
    const of = inner(field.type);
    const more = of.kind === "OBJECT" ? " " + selection(types, of.name, indent + "  ") : "";
    return indent + "  " + field.name + more + "\n";
  });
  return "{\n" + fields.join("") + indent + "}";
}

function show(schema) {
  const types = new Map(schema.types.map((type) => [type.name, type]));
  const root = schema.queryType.name;
  const listed = schema.types.filter((type) => type.kind === "OBJECT" && !type.name.startsWith("__"));
  listed.sort((a, b) => (b.name === root) - (a.name === root) || (a.name < b.name ? -1 : 1));
  for (const type of listed) {
    const box = element("details");
    box.open = type.name === root;
    box.append(element("summary", type.name));
    if (type.description) box.append(element("p", type.description));
    for (const field of type.fields) {
      const line = element("p");
      const args = field.args.map((arg) => arg.name + ": " + written(arg.type) + (arg.defaultValue ? " = " + arg.defaultValue : ""));
      line.append(element("code", field.name + (args.length ? "(" + args.join(", ") + ")" : "") + ": " + written(field.type)));
      if (type.name === root && inner(field.type).kind === "OBJECT") {
        const use = element("button", "use");
        use.type = "button";
        use.addEventListener("click", () => {
          const some = field.args.length ? "(limit: 10, offset: 0) " : " ";
          at("query").value = "{\n  " + field.name + some + selection(types, inner(field.type).name, "  ") + "\n}\n";
          run();
        });
        line.append(" ", use);
      }
      if (field.description) line.append(element("small", field.description));
      box.append(line);
    }
    at("types").append(box);
  }
}

at("filter").addEventListener("input", () => {
  const wanted = at("filter").value.toLowerCase();
  for (const box of at("types").children) {
    const name = box.firstChild.textContent.toLowerCase();
    let any = name.includes(wanted);
    for (const line of box.querySelectorAll("p")) {
      const hit = name.includes(wanted) || line.textContent.toLowerCase().includes(wanted);
      line.hidden = !hit;
      any = any || hit;
    }
    box.hidden = !any;
    if (wanted && any) box.open = true;
  }
});
at("run").addEventListener("click", run);
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    run();
  }
});
at("catalog").textContent = catalog;
document.title = catalog + ": GraphQL";
at("query").value = SUMMARY;
ask({ query: INTROSPECTION })
  .then((answer) => {
    if (!answer.data) throw new Error(answer.errors[0].message);
    show(answer.data.__schema);
    run();
  })
  .catch((error) => say(error.message, true));
