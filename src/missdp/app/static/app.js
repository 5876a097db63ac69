"use strict";
// Sends forms without leaving the page, shows progress, and moves the slider. It stores nothing.
const $ = (query, root = document) => root.querySelector(query);
let sending = false;

function show(text, url) {
  const page = new DOMParser().parseFromString(text, "text/html");
  const open = [...document.querySelectorAll("details.column[open]")].map((one) => one.id);
  const focused = document.activeElement && document.activeElement.name, place = window.scrollY;
  const moved = new URL(url).pathname !== location.pathname;
  $("main").replaceWith(document.adoptNode($("main", page)));
  $("nav").replaceWith(document.adoptNode($("nav", page)));
  document.title = page.title;
  if (moved) history.pushState(null, "", url);
  for (const id of moved ? [] : open) if (document.getElementById(id)) document.getElementById(id).open = true;
  prepare();
  const alert = $("[role=alert]");
  if (alert) { alert.focus(); alert.scrollIntoView({ block: "center" }); return; }
  window.scrollTo(0, moved ? 0 : place);
  if (moved) $("main").focus({ preventScroll: true });
  else if (focused && $(`main [name="${CSS.escape(focused)}"]`)) $(`main [name="${CSS.escape(focused)}"]`).focus({ preventScroll: true });
}

async function load(url, options) {
  const slow = setTimeout(() => { $("#stage").textContent = "please wait"; $("#progress").hidden = false; }, 300);
  sending = true;
  try {
    const answer = await fetch(url, options);
    const text = await answer.text();
    if (answer.ok) show(text, answer.url);
    else { $("#stage").textContent = text; $("#progress").hidden = false; }
  } catch { $("#stage").textContent = "the server has stopped. Start `missdp app` again."; $("#progress").hidden = false; }
  clearTimeout(slow);
  sending = false;
}

async function poll() {
  if ($("main").dataset.running !== "1" || sending) return;
  try {
    const state = await (await fetch("/progress")).json();
    if (!state.running) { load(location.pathname); return; }
    $("#stage").textContent = state.stage;
    const bar = $("#progress progress");
    if (state.done === null) bar.removeAttribute("value"); else bar.value = state.done;
  } catch { $("#stage").textContent = "the server has stopped. Start `missdp app` again."; }
}

document.addEventListener("submit", (event) => {
  const form = event.target, button = event.submitter;
  event.preventDefault();
  const body = new URLSearchParams(new FormData(form, button));
  if (button && button.name === "pick") { body.set("data", button.value); $("[name=data]", form).value = button.value; }
  load(button && button.hasAttribute("formaction") ? button.formAction : form.action, { method: "POST", body });
});

document.addEventListener("change", (event) => {
  if (event.target.name !== "kind") return;
  const form = event.target.form, body = new URLSearchParams(new FormData(form));
  body.set("action", "kind");
  load(form.action, { method: "POST", body });
});

let typing = 0;
document.addEventListener("input", (event) => {
  if (event.target.id === "slider") { slide(); return; }
  const form = event.target.form;
  if (!form || !form.action.endsWith("/schema/rule")) return;
  clearTimeout(typing);
  typing = setTimeout(async () => {
    if (!form.elements.text.value) { $("#rule-problem").textContent = ""; return; }
    const answer = await fetch("/schema/try", { method: "POST", body: new URLSearchParams(new FormData(form)) });
    $("#rule-problem").textContent = (await answer.json()).problem || "This rule can be read.";
  }, 400);
});

function slide() {
  const slider = $("#slider"), planned = [...document.querySelectorAll(".planned")];
  if (!slider) return;
  slider.parentElement.hidden = false;
  planned.forEach((one, place) => { one.hidden = place !== Number(slider.value); });
  $("#epsilon").textContent = $("h3", planned[slider.value]).textContent;
  slider.setAttribute("aria-valuetext", $("#epsilon").textContent);
}

function prepare() { slide(); }
window.addEventListener("popstate", () => load(location.pathname));
setInterval(poll, 400);
prepare();
