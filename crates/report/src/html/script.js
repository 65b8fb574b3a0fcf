"use strict";
// Sorts tables, filters rows and shows tips. Every fact of the page is there without it.
(function () {
  var units = {
    "B": 1, "KiB": 1024, "MiB": 1048576, "GiB": 1073741824, "TiB": 1099511627776,
    "kB": 1e3, "MB": 1e6, "GB": 1e9, "B/s": 1, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12,
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600
  };
  function figure(text) {
    var found = /^(?:at least |rank )?([-+]?[0-9][0-9.,]*(?:e[-+]?[0-9]+)?)\s*([A-Za-zµ\/]+)?/.exec(text);
    if (!found) { return null; }
    return parseFloat(found[1].replace(/,/g, "")) * (units[found[2]] || 1);
  }
  var names = new Intl.Collator("en", { numeric: true });
  function compare(a, b) {
    if (a.figure !== null && b.figure !== null && a.figure !== b.figure) { return a.figure - b.figure; }
    if (a.figure === null && b.figure !== null) { return 1; }
    if (a.figure !== null && b.figure === null) { return -1; }
    return names.compare(a.text, b.text);
  }
  function sort(table, head, at) {
    var up = head.getAttribute("aria-sort") !== "ascending";
    table.tHead.querySelectorAll("th").forEach(function (other) { other.removeAttribute("aria-sort"); });
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    var body = table.tBodies[0];
    var isFigure = head.classList.contains("n");
    var rows = Array.from(body.rows).map(function (row) {
      var text = row.cells[at] ? row.cells[at].textContent : "";
      return { row: row, text: text, figure: isFigure ? figure(text) : null };
    });
    rows.sort(compare);
    if (!up) { rows.reverse(); }
    var all = document.createDocumentFragment();
    rows.forEach(function (one) { all.appendChild(one.row); });
    body.appendChild(all);
  }
  document.querySelectorAll("table").forEach(function (table) {
    if (!table.tHead || table.tBodies[0].rows.length < 2) { return; }
    table.tHead.querySelectorAll("th").forEach(function (head, at) {
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.title = "Sort by " + head.textContent;
      head.textContent = "";
      head.appendChild(button);
      head.addEventListener("click", function () { sort(table, head, at); });
    });
  });

  var tools = document.getElementById("tools");
  var box = document.getElementById("filter");
  var said = document.getElementById("filtered");
  var rows = null;
  function filter() {
    if (!rows) {
      rows = Array.from(document.querySelectorAll("tbody tr")).map(function (row) {
        var cells = Array.from(row.cells).map(function (cell) { return cell.textContent; });
        return { row: row, text: cells.join(" ").toLowerCase() };
      });
    }
    var words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    var shown = 0;
    rows.forEach(function (one) {
      var fits = words.every(function (word) { return one.text.indexOf(word) >= 0; });
      if (one.row.hidden === fits) { one.row.hidden = !fits; }
      shown += fits ? 1 : 0;
    });
    said.textContent = shown + " of " + rows.length + " rows";
  }
  if (tools && box && said) {
    tools.hidden = false;
    said.textContent = document.querySelectorAll("tbody tr").length + " rows";
    box.addEventListener("input", filter);
  }

  var tip = null;
  function hide() { if (tip) { tip.remove(); tip = null; } }
  document.addEventListener("pointermove", function (event) {
    var mark = event.target.closest ? event.target.closest("svg *") : null;
    var title = null;
    while (mark && mark.tagName.toLowerCase() !== "svg") {
      title = mark.querySelector(":scope > title");
      if (title || mark.hasAttribute("data-tip")) { break; }
      mark = mark.parentNode;
    }
    // Moved away from its element, so that the browser's own tip does not show as well.
    if (title) {
      mark.setAttribute("data-tip", title.textContent);
      mark.setAttribute("aria-label", title.textContent);
      title.remove();
    }
    var text = mark && mark.getAttribute ? mark.getAttribute("data-tip") : null;
    if (!text) { hide(); return; }
    if (!tip) {
      tip = document.createElement("div");
      tip.id = "tip";
      tip.setAttribute("role", "tooltip");
      document.body.appendChild(tip);
    }
    tip.textContent = text;
    tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8) + "px";
  });
  document.addEventListener("scroll", hide, true);
}());
