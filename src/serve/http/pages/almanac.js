// Comfort for the pages of almanac. Everything works without it.
(() => {
  "use strict";
  const root = document.documentElement;
  const stored = (name, area = "localStorage") => {
    try { return window[area].getItem(name); } catch { return null; }
  };
  const store = (name, value, area = "localStorage") => {
    try { window[area].setItem(name, value); } catch { /* private window */ }
  };

  // The theme is set before the first paint; this script blocks for that.
  const themes = ["auto", "light", "dark"];
  let theme = themes.includes(stored("theme")) ? stored("theme") : "auto";
  const show = () => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
  };
  show();

  // An icon that cannot be drawn leaves its place to the first letter of the name.
  document.addEventListener("error", ({ target }) => {
    if (target instanceof HTMLImageElement) target.replaceWith(target.dataset.letter ?? "");
  }, true);

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

  // The graph: arrows move from dot to dot, [ and ] along an edge; the edges of a dot
  // stay while others fade; + - 0 change the size.
  const matrix = () => {
    const region = document.querySelector(".matrix");
    const table = region && region.querySelector("table");
    if (!table) return;
    const rows = [...table.tBodies[0].rows];
    const lines = [...region.querySelectorAll("[data-edge]")].map((path) => {
      const [column, from, to] = path.dataset.edge.split(" ").map(Number);
      return { path, column, from, to };
    });
    // The place of a link in the table: its row, and its column from 0 for channels.
    const placed = (link) => {
      const cell = link.closest && link.closest("tbody td, tbody th");
      if (!cell) return null;
      const row = cell.parentElement;
      return { row: rows.indexOf(row), column: [...row.children].indexOf(cell) - 1 };
    };
    const linkAt = (row, column) => {
      const cell = rows[row] && rows[row].children[column + 1];
      if (!cell) return undefined;
      return cell.querySelector("a") ?? (cell.querySelector(".more") && rows[row].querySelector("a"));
    };
    const near = (link) => {
      const at = link && placed(link);
      const own = at ? lines.filter(({ column, from, to }) => column === at.column && (from === at.row || to === at.row)) : [];
      for (const { path } of lines) path.classList.toggle("far", own.length > 0);
      for (const { path } of own) path.classList.remove("far");
    };
    for (const type of ["mouseover", "focusin"]) {
      region.addEventListener(type, (event) => near(event.target.closest(".dot")));
    }
    region.addEventListener("mouseleave", () => near(document.activeElement.closest(".dot")));
    region.addEventListener("focusout", () => near(null));

    const next = (key, { row, column }) => {
      const step = (rowStep, columnStep) => {
        for (let at = 1; ; at += 1) {
          const [r, c] = [row + at * rowStep, column + at * columnStep];
          if (r < 0 || r >= rows.length || c < -1 || c >= rows[r].children.length - 1) return null;
          const link = linkAt(r, c);
          if (link) return link;
        }
      };
      const follow = (is, goes) => {
        const line = lines.find((line) => line.column === column && line[is] === row);
        return line && linkAt(line[goes], column);
      };
      const moves = {
        ArrowDown: () => step(1, 0), ArrowUp: () => step(-1, 0), ArrowRight: () => step(0, 1), ArrowLeft: () => step(0, -1),
        "[": () => follow("from", "to"), "]": () => follow("to", "from"),
      };
      return moves[key] && moves[key]();
    };

    const canvas = region.querySelector(".canvas");
    const sizes = [50, 75, 100, 125, 150, 200];
    let size = sizes.indexOf(Number(stored("zoom")));
    if (size < 0) size = 2;
    const zoom = (step) => {
      size = step === 0 ? 2 : Math.min(Math.max(size + step, 0), sizes.length - 1);
      canvas.style.zoom = `${sizes[size]}%`;
      store("zoom", sizes[size]);
    };
    if (size !== 2) canvas.style.zoom = `${sizes[size]}%`;
    const buttons = document.getElementById("zoom");
    if (buttons) {
      buttons.hidden = false;
      buttons.addEventListener("click", (event) => {
        const step = event.target.dataset.zoom;
        if (step) zoom(Number(step));
      });
    }
    region.addEventListener("wheel", (event) => {
      if (!event.ctrlKey || event.deltaY === 0) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? -1 : 1);
    }, { passive: false });
    const clear = document.getElementById("clear");
    region.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const zooms = { "+": 1, "-": -1, 0: 0 };
      if (event.key in zooms) {
        event.preventDefault();
        zoom(zooms[event.key]);
        return;
      }
      if (event.key === "Escape" && clear) {
        clear.click();
        return;
      }
      const at = placed(event.target);
      const target = at && next(event.key, at);
      if (target) {
        event.preventDefault();
        target.focus();
      }
    });
    // A selection is another page: it begins where this one was left.
    const kept = stored("place", "sessionStorage") ?? "";
    const [path, ...place] = kept.split(" ");
    if (path === location.pathname) {
      const [top, left, row, column] = place.map(Number);
      region.scrollLeft = left;
      scrollTo(0, top);
      const link = linkAt(row, column);
      if (link) link.focus({ preventScroll: true });
    }
    if (kept) store("place", "", "sessionStorage");
    region.addEventListener("click", (event) => {
      const link = event.target.closest(".dot, .words td a");
      if (!link) return;
      const { row, column } = placed(link);
      store("place", [location.pathname, scrollY, region.scrollLeft, row, column].join(" "), "sessionStorage");
    });
  };

  // Draws the file of the graph on a canvas; no side is longer than browsers draw.
  const picture = () => {
    const button = document.getElementById("png");
    if (!button) return;
    button.hidden = false;
    button.addEventListener("click", () => {
      const image = new Image();
      image.addEventListener("load", () => {
        const { naturalWidth: width, naturalHeight: height } = image;
        const scale = Math.min(2, 8192 / width, 8192 / height);
        const canvas = document.createElement("canvas");
        canvas.width = Math.max(1, Math.floor(width * scale));
        canvas.height = Math.max(1, Math.floor(height * scale));
        canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
        canvas.toBlob((blob) => {
          const link = document.createElement("a");
          link.href = URL.createObjectURL(blob);
          link.download = `${button.dataset.name}.png`;
          link.click();
          setTimeout(() => URL.revokeObjectURL(link.href), 10000);
        }, "image/png");
      });
      image.src = button.dataset.from;
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
    // A page of an error has no basket, and leaves the stored one alone.
    const shown = document.getElementById("basket");
    if (shown) store("plan", shown.dataset.plan);
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
    for (const start of [themeButton, ages, copies, suggestions, matrix, picture, basket]) start();
  });
})();
