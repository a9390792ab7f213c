
"use strict";
/* The editor: colors behind a transparent text area, and completion by the schema. */
const at = (id) => document.getElementById(id);

const TOKENS = /(#[^\n]*)|("""[\s\S]*?(?:"""|$)|"(?:\\.|[^"\\\n])*"?)|(-?\d[\d.eE+-]*)|(\$\w*)|(\.\.\.)|([A-Za-z_]\w*)|([{}()[\]:!=@|&])/g;
const WORDS = new Set(["query", "mutation", "subscription", "fragment", "on", "true", "false", "null"]);
/* Longer texts are shown without colors: making them would block the page. */
const LONGEST = 200000;

function tokens(text) {
  return Array.from(text.matchAll(TOKENS), (found) => {
    const kind = ["comment", "string", "number", "variable", "spread", "name", "sign"][found.slice(1).findIndex((part) => part !== undefined)];
    return { kind, text: found[0], start: found.index, end: found.index + found[0].length };
  });
}

/* Puts a text into an element, each part with the class of its token. */
function color(element, text, kindOf) {
  element.textContent = "";
  if (text.length > LONGEST) {
    element.textContent = text;
    return;
  }
  let end = 0;
  for (const token of tokens(text)) {
    const kind = kindOf(token, text);
    if (!kind) continue;
    element.append(text.slice(end, token.start));
    const part = document.createElement("span");
    part.className = kind;
    part.textContent = token.text;
    element.append(part);
    end = token.end;
  }
  element.append(text.slice(end));
}

function ofQuery(token) {
  if (token.kind === "name") return WORDS.has(token.text) ? "word" : "";
  return token.kind === "sign" || token.kind === "spread" ? "" : token.kind;
}

function ofAnswer(token, text) {
  if (token.kind === "string") return text[token.end] === ":" ? "key" : "string";
  if (token.kind === "name") return "word";
  return token.kind === "number" ? "number" : "";
}

const editor = {
  /* Types by name, and the name of the root, once the schema is known. */
  types: new Map(),
  root: "",
  choices: [],
  chosen: 0,

  get text() {
    return at("query").value;
  },
  set text(text) {
    at("query").value = text;
    this.hide();
    this.paint();
  },

  paint() {
    /* A line end at the end shows a line only with something behind it. */
    color(at("colors"), this.text + "\n", ofQuery);
    this.follow();
  },

  follow() {
    at("colors").scrollTop = at("query").scrollTop;
    at("colors").scrollLeft = at("query").scrollLeft;
  },

  /* What may stand at a position: the word before it, and the names that fit. */
  context(position) {
    const before = tokens(this.text).filter((token) => token.start < position && token.kind !== "comment");
    const last = before[before.length - 1];
    if (last && last.end >= position && last.kind === "string") return null;
    let word = "";
    if (last && last.kind === "name" && last.end >= position) {
      word = this.text.slice(last.start, position);
      before.pop();
    }
    const fields = (name) => (this.types.get(name) || {}).fields || [];
    const inputs = (name) => (this.types.get(name) || {}).inputFields || [];
    /* The open brackets: each with the names that may stand in it. */
    const open = [];
    let next = this.root, field = null, argument = null, condition = null;
    before.forEach((token, number) => {
      const top = open[open.length - 1];
      const after = before[number + 1];
      if (token.kind === "name" && top && top.sign === "{") {
        if (before[number - 1] && before[number - 1].text === "on") next = token.text;
        else if (!(after && after.text === ":")) {
          field = top.fields.find((one) => one.name === token.text) || null;
          if (field) next = inner(field.type).name;
        }
      } else if (token.kind === "name" && top && top.sign === "(") {
        if (after ? after.text === ":" : false) argument = top.args.find((one) => one.name === token.text) || null;
      } else if (token.kind === "name" && !top && before[number - 1] && before[number - 1].text === "on") {
        next = token.text;
      }
      if (token.text === "{" && token.kind === "sign") {
        const within = top && (top.sign === "(" || top.sign === "where");
        condition = within && argument ? inner(argument.type).name : null;
        open.push(within ? { sign: "where", names: condition ? inputs(condition) : [] } : { sign: "{", fields: fields(next) });
      } else if (token.text === "(") {
        open.push({ sign: "(", args: (field && field.args) || [] });
      } else if (token.text === "}" || token.text === ")") {
        open.pop();
        if (!open.length) next = this.root;
      }
    });
    const top = open[open.length - 1];
    const previous = before[before.length - 1];
    if (!top || (previous && previous.text === ":" && top.sign !== "{")) return null;
    const names = top.sign === "{" ? top.fields : top.sign === "(" ? top.args : top.names;
    return { word, names };
  },

  complete(always) {
    const box = at("query");
    const position = box.selectionStart;
    const context = position === box.selectionEnd ? this.context(position) : null;
    if (!context || (!always && !context.word)) return this.hide();
    const word = context.word.toLowerCase();
    const begins = context.names.filter((one) => one.name.toLowerCase().startsWith(word));
    const has = context.names.filter((one) => !begins.includes(one) && one.name.toLowerCase().includes(word));
    this.choices = begins.concat(has).slice(0, 50);
    if (!this.choices.length || (this.choices.length === 1 && this.choices[0].name === context.word)) return this.hide();
    this.chosen = 0;
    this.word = context.word;
    this.show(position - context.word.length);
  },

  show(position) {
    const list = at("choices");
    list.textContent = "";
    this.choices.forEach((one, number) => {
      const line = document.createElement("li");
      line.id = "choice" + number;
      line.setAttribute("role", "option");
      line.textContent = one.name;
      const type = document.createElement("small");
      type.textContent = written(one.type);
      line.append(" ", type);
      line.addEventListener("mousedown", (event) => {
        event.preventDefault();
        this.chosen = number;
        this.take();
      });
      list.append(line);
    });
    /* The colors have the place of each letter. */
    const range = document.createRange();
    const place = this.place(position);
    range.setStart(place.node, place.offset);
    range.collapse(true);
    const rect = range.getClientRects()[0] || at("colors").getBoundingClientRect();
    const frame = at("editor").getBoundingClientRect();
    list.hidden = false;
    list.style.left = Math.max(0, Math.min(rect.left - frame.left, frame.width - list.offsetWidth)) + "px";
    list.style.top = rect.bottom - frame.top + "px";
    this.mark();
  },

  place(position) {
    const walker = document.createTreeWalker(at("colors"), NodeFilter.SHOW_TEXT);
    let left = position;
    while (walker.nextNode()) {
      if (left <= walker.currentNode.length) return { node: walker.currentNode, offset: left };
      left -= walker.currentNode.length;
    }
    return { node: at("colors"), offset: 0 };
  },

  mark() {
    Array.from(at("choices").children).forEach((line, number) => {
      line.setAttribute("aria-selected", String(number === this.chosen));
      if (number === this.chosen) line.scrollIntoView({ block: "nearest" });
    });
    at("query").setAttribute("aria-activedescendant", "choice" + this.chosen);
  },

  hide() {
    at("choices").hidden = true;
    at("query").removeAttribute("aria-activedescendant");
  },

  take() {
    const box = at("query");
    const end = box.selectionStart;
    box.setRangeText(this.choices[this.chosen].name, end - this.word.length, end, "end");
    this.hide();
    this.paint();
    box.focus();
  },

  key(event) {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      return this.complete(true);
    }
    if (at("choices").hidden) return;
    const count = this.choices.length;
    const moves = { ArrowDown: 1, ArrowUp: count - 1 };
    if (moves[event.key]) {
      this.chosen = (this.chosen + moves[event.key]) % count;
      this.mark();
    } else if ((event.key === "Enter" && !event.ctrlKey && !event.metaKey) || event.key === "Tab") {
      this.take();
    } else if (event.key === "Escape") {
      this.hide();
    } else {
      return;
    }
    event.preventDefault();
  },
};

at("query").addEventListener("input", () => {
  editor.paint();
  editor.complete(false);
});
at("query").addEventListener("scroll", () => editor.follow());
at("query").addEventListener("keydown", (event) => editor.key(event));
at("query").addEventListener("blur", () => editor.hide());
at("query").addEventListener("click", () => editor.hide());
