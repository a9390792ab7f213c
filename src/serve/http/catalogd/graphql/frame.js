/* The stored theme and mirror plan, which the page shares with all others. */
const stored = (name) => {
  try { return localStorage.getItem(name); } catch { return null; }
};
const themes = ["auto", "light", "dark"];
let theme = themes.includes(stored("theme")) ? stored("theme") : "auto";

function showTheme() {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  if (at("theme")) at("theme").textContent = "Theme: " + theme;
}

showTheme();
if (at("theme")) {
  at("theme").hidden = false;
  at("theme").addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    try { localStorage.setItem("theme", theme); } catch { /* private window */ }
    showTheme();
  });
  const plan = stored("plan");
  const picks = plan ? new URLSearchParams(plan).getAll("pick").length : 0;
  if (picks > 0) {
    at("plan-link").href = "/mirror" + plan;
    at("plan-link").textContent = "Mirror plan (" + picks + ")";
  }
  const name = decodeURIComponent(location.pathname.split("/")[2] || "");
  at("up").href = "/catalogs/" + encodeURIComponent(name);
  at("up").textContent = name;
}

