
/* The page: it sends queries, and shows the answer and the schema. */
const path = location.pathname;
const catalog = decodeURIComponent(path.split("/")[2] || "");
const SUMMARY = "{\n  summary {\n    totalSchemas\n    schemas { name totalObjects totalFields }\n  }\n}\n";
const INTROSPECTION = `query Introspection { __schema { queryType { name } types { kind name description
  inputFields { name type { ...T } }
  fields { name description args { name description type { ...T } defaultValue } type { ...T } } } } }
  fragment T on __Type { kind name ofType { kind name ofType { kind name ofType { kind name } } } }`;

function say(text, bad) {
  at("status").textContent = text;
  at("status").className = bad ? "bad" : "";
}

async function ask(body) {
  const headers = { "Content-Type": "application/json" };
  const token = at("token").value.trim();
  if (token) headers.Authorization = "Bearer " + token;
  const reply = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), credentials: "same-origin" });
  const text = await reply.text();
  if (reply.status === 401) {
    at("token").focus();
    throw new Error(token ? "The token is not valid" : "This catalog needs a token");
  }
  if (!reply.ok) throw new Error(reply.status + ": " + text.trim());
  return JSON.parse(text);
}

let running = 0;

async function run() {
  const mine = ++running;
  const body = { query: editor.text };
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
    color(at("answer"), JSON.stringify(answer, null, 2), ofAnswer);
    const count = (answer.errors || []).length;
    const errors = count === 0 ? "" : count === 1 ? ", 1 error" : ", " + count + " errors";
    const cut = ((answer.extensions || {}).limits || []).map((page) => ", " + page.path + ": " + page.message);
    say(Math.round(performance.now() - start) + " ms" + errors + cut.join(""), count > 0);
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
  editor.types = types;
  editor.root = root;
  at("types").textContent = "";
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
          editor.text = "{\n  " + field.name + some + selection(types, inner(field.type).name, "  ") + "\n}\n";
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

/* An example with a package of the catalog, if the schema is that of operators. */
async function example() {
  const fields = (type) => ((editor.types.get(type) || {}).fields || []).map((field) => field.name);
  if (!fields(editor.root).includes("olmpackages") || !fields(editor.root).includes("olmbundles")) return SUMMARY;
  const answer = await ask({ query: "{ olmpackages(limit: 1) { name } }" });
  const first = ((answer.data || {}).olmpackages || [])[0];
  if (!first || !first.name) return SUMMARY;
  const wanted = ["name", "image", "properties"].filter((name) => fields("OlmBundle").includes(name));
  const lines = wanted.map((name) => "    " + name + (name === "properties" ? " { type value }" : "") + "\n");
  return "{\n  olmbundles(package: " + JSON.stringify(first.name) + ", limit: 5) {\n" + lines.join("") + "  }\n}\n";
}

async function load() {
  try {
    const answer = await ask({ query: INTROSPECTION });
    if (!answer.data) throw new Error(answer.errors[0].message);
    show(answer.data.__schema);
    if (editor.text === SUMMARY) editor.text = await example();
    await run();
  } catch (error) {
    say(error.message, true);
  }
}

at("catalog").textContent = catalog;
document.title = catalog + ": GraphQL";
at("token").addEventListener("change", load);
editor.text = SUMMARY;
load();
