"use strict";
// Shows progress, checks the schema while it is typed, and moves the slider. It stores nothing.
const $ = (query) => document.querySelector(query);
const stopped = "the server has stopped. Start `missdp app` again.";
let timer = 0, sent = false;

async function poll() {
  try {
    const state = await (await fetch("/progress")).json();
    if (!state.running) location.reload();
    $("#stage").textContent = state.stage;
    const bar = $("#progress progress");
    if (state.done === null) bar.removeAttribute("value"); else bar.value = state.done;
  } catch { $("#stage").textContent = stopped; }
}

async function check(form) {
  const body = new URLSearchParams(new FormData(form));
  try {
    const answer = await (await fetch("/schema/try", { method: "POST", body })).json();
    $("#state").textContent = answer.problem || "Not saved. No error.";
  } catch { $("#state").textContent = stopped; }
}

function slide() {
  const planned = document.querySelectorAll(".planned");
  planned.forEach((one, place) => { one.hidden = place !== Number($("#slider").value); });
  $("#epsilon").textContent = planned[$("#slider").value].querySelector("h3").textContent;
  $("#slider").setAttribute("aria-valuetext", $("#epsilon").textContent);
}

document.documentElement.className = "scripted";
document.addEventListener("change", ({ target }) => {
  if (target.name.endsWith(".kind")) target.closest(".grid").querySelector("button").click();
});
document.addEventListener("input", ({ target }) => {
  if (target.id === "slider") slide();
  clearTimeout(timer);
  // Another release is described than the one whose guarantee is shown.
  if (target.form?.action.endsWith("/release/state")) $(".confirm")?.remove();
  if (target.form?.action.endsWith("/schema/save")) timer = setTimeout(check, 400, target.form);
});
document.addEventListener("submit", (event) => {
  clearTimeout(timer);
  if (sent) event.preventDefault();  // a second click sends nothing
  sent = true;
  setTimeout(() => { sent = false; }, 3000);  // the sending may have been stopped
});
window.addEventListener("pageshow", () => { sent = false; });
history.scrollRestoration = "manual";
// An address has the name of the last action, which is the name of the place of its result.
$(location.hash || "#none")?.scrollIntoView();
$("[role=alert]")?.focus();
if ($("main").dataset.running === "1") setInterval(poll, 400);
if ($("#slider")) { $(".slider").hidden = false; slide(); }
