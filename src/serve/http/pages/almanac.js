// Comfort for the pages of almanac. Everything works without it.
(() => {
  "use strict";
  const root = document.documentElement;
  const stored = (name) => {
    try { return localStorage.getItem(name); } catch { return null; }
  };
  const store = (name, value) => {
    try { localStorage.setItem(name, value); } catch { /* private window */ }
  };

  // The theme is set before the first paint; this script blocks for that.
  const themes = ["auto", "light", "dark"];
  let theme = themes.includes(stored("theme")) ? stored("theme") : "auto";
  const show = () => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
  };
  show();

  const ago = (seconds) => {
    for (const [length, name] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
      if (seconds >= length) return `${Math.floor(seconds / length)} ${name} ago`;
    }
    return "just now";
  };

  const ages = () => {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
      if (!(seconds >= 0)) continue;
      time.title = time.textContent;
      time.textContent += ` (${ago(seconds)})`;
    }
  };

  const copies = () => {
    if (!navigator.clipboard) return;
    for (const button of document.querySelectorAll("button.copy")) {
      button.hidden = false;
      button.addEventListener("click", async () => {
        const code = button.parentElement.querySelector("code");
        try {
          await navigator.clipboard.writeText(code.textContent);
          button.textContent = "Copied";
        } catch {
          button.textContent = "Not allowed";
        }
        setTimeout(() => { button.textContent = "Copy"; }, 2000);
      });
    }
  };

  const suggestions = () => {
    const field = document.getElementById("words");
    const list = document.getElementById("near");
    if (!field || !list) return;
    let waiting = 0;
    let asking = false;
    const ask = async () => {
      const text = field.value.trim();
      if (asking || text.length < 2) return;
      asking = true;
      try {
        const reply = await fetch(`/suggest?q=${encodeURIComponent(text)}`);
        if (reply.ok) {
          const { items } = await reply.json();
          list.replaceChildren(...items.map(({ name }) => {
            const option = document.createElement("option");
            option.value = name;
            return option;
          }));
        }
      } catch { /* no network */ }
      asking = false;
      if (field.value.trim() !== text) plan();
    };
    const plan = () => {
      clearTimeout(waiting);
      waiting = setTimeout(ask, 120);
    };
    field.addEventListener("input", plan);
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest && event.target.closest("input, select, textarea");
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      const permanent = document.getElementById("permanent");
      if (event.key === "y" && permanent) location.href = permanent.href;
      if (event.key === "/") {
        event.preventDefault();
        field.focus();
      }
    });
  };

  // Arrows move from dot to dot; hovering a dot keeps its column.
  const matrix = () => {
    const table = document.querySelector(".matrix table");
    if (!table) return;
    table.addEventListener("keydown", (event) => {
      const cell = event.target.closest("td, th");
      if (!cell || !event.target.matches(".dot, th a")) return;
      const row = cell.parentElement;
      const column = [...row.children].indexOf(cell);
      const at = (from, step, pick) => {
        for (let next = from + step; ; next += step) {
          const found = pick(next);
          if (found === undefined) return null;
          const link = found && found.querySelector("a");
          if (link) return link;
        }
      };
      const rows = [...table.tBodies[0].rows];
      const place = rows.indexOf(row);
      const down = (step) => at(place, step, (n) => rows[n] && rows[n].children[column]);
      const across = (step) => at(column, step, (n) => row.children[n]);
      const moves = {
        ArrowDown: () => down(1),
        ArrowUp: () => down(-1),
        ArrowRight: () => across(1),
        ArrowLeft: () => across(-1),
      };
      const target = moves[event.key] && moves[event.key]();
      if (target) {
        event.preventDefault();
        target.focus();
      }
    });
  };

  const themeButton = () => {
    const button = document.getElementById("theme");
    if (!button) return;
    const label = () => { button.textContent = `Theme: ${theme}`; };
    button.hidden = false;
    label();
    button.addEventListener("click", () => {
      theme = themes[(themes.indexOf(theme) + 1) % themes.length];
      store("theme", theme);
      show();
      label();
    });
  };

  // The basket of the mirror plan goes along.
  const basket = () => {
    const link = document.getElementById("plan-link");
    if (location.pathname === "/mirror") store("plan", location.search);
    const plan = stored("plan");
    if (!link || !plan) return;
    const picks = new URLSearchParams(plan).getAll("pick").length;
    if (picks > 0) {
      link.href = `/mirror${plan}`;
      link.textContent = `Mirror plan (${picks})`;
    }
    for (const add of document.querySelectorAll("a[data-pick]")) {
      const all = new URLSearchParams(plan);
      if (!all.getAll("pick").includes(add.dataset.pick)) all.append("pick", add.dataset.pick);
      add.href = `/mirror?${all}`;
    }
  };

  document.addEventListener("DOMContentLoaded", () => {
    for (const start of [themeButton, ages, copies, suggestions, matrix, basket]) start();
  });
})();
