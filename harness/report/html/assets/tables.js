// Makes every table sortable by a click on a column's head. A table with many rows also gets a filter.
const MANY = 10;

// Returns the sort key of a cell: a number if its text begins with one, else the text. Empty cells come last.
function keyOf(row, column) {
  const text = row.cells[column].textContent.trim(), number = parseFloat(text.replaceAll(",", ""));
  return text === "" ? null : Number.isNaN(number) ? text : number;
}

function compared(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en");
}

function sort(table, column) {
  const heads = table.tHead.rows[0].cells, head = heads[column], down = head.ariaSort === "ascending", body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [keyOf(row, column), row]);
  const filled = rows.filter(([key]) => key !== null).sort(([a], [b]) => (down ? compared(b, a) : compared(a, b)));
  for (const other of heads) other.ariaSort = null;
  head.ariaSort = down ? "descending" : "ascending";
  body.append(...[...filled, ...rows.filter(([key]) => key === null)].map(([, row]) => row));
}

function filter(table, text, count) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean), rows = [...table.tBodies[0].rows];
  for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  count.textContent = words.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length}` : "";
}

function addFilter(table) {
  const box = document.createElement("p"), label = document.createElement("label"), input = document.createElement("input"), count = document.createElement("span");
  box.className = "filter";
  input.type = "search";
  input.placeholder = "words that a row contains";
  count.role = "status";
  label.append("Filter ", input);
  box.append(label, " ", count);
  input.addEventListener("input", () => filter(table, input.value, count));
  table.caption.append(box);
}

for (const table of document.querySelectorAll("main table")) {
  if (table.tBodies[0].rows.length < 2) continue;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(table, column));
  });
  if (table.tBodies[0].rows.length > MANY) addFilter(table);
}
