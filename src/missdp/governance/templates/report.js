"use strict";
// Puts rows and columns of the matrix of relations into another order.
const order = document.getElementById("order");
const table = document.getElementById("matrix");
if (order && table) {
  const rows = [...table.tBodies[0].rows];
  const names = rows.map((row) => row.cells[0].dataset.name);
  const totals = rows.map((row) => Number(row.cells[0].dataset.total));
  const cells = [...table.querySelectorAll("tr")].map((row) => [row, [...row.cells]]);
  order.hidden = false;
  order.previousElementSibling.hidden = false;
  order.addEventListener("change", () => {
    const places = rows.map((_, place) => place);
    if (order.value === "name") places.sort((a, b) => names[a].localeCompare(names[b]));
    if (order.value === "strength") places.sort((a, b) => totals[b] - totals[a]);
    for (const [row, own] of cells) row.append(own[0], ...places.map((place) => own[place + 1]));
    table.tBodies[0].append(...places.map((place) => rows[place]));
  });
}
