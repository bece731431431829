// Which view is shown, by what stands behind the `#` of the address. A view is a function that is
// given the page's api, the names in the address and a signal that ends with it, and returns what
// is shown.

import { showActivity } from "/console/activity.js";
import { Api, Refusal } from "/console/api.js";
import { showBasin, showBasins } from "/console/basins.js";
import { showCluster } from "/console/cluster.js";
import { labelled, make, tell } from "/console/dom.js";
import { showStream } from "/console/stream.js";
import { showTokens } from "/console/tokens.js";

const VIEWS = [
  [/^#\/$/, showCluster],
  [/^#\/basins$/, showBasins],
  [/^#\/basins\/([^/]+)$/, showBasin],
  [/^#\/basins\/([^/]+)\/streams\/([^/]+)$/, showStream],
  [/^#\/tokens$/, showTokens],
  [/^#\/activity$/, showActivity],
];

const api = new Api();
const main = document.getElementById("main");
const views = document.getElementById("views");
const who = document.getElementById("who");
let shown = new AbortController();

async function show() {
  shown.abort();
  const ending = (shown = new AbortController());
  tell("");
  const address = location.hash || "#/";
  const found = VIEWS.map(([form, view]) => [form.exec(address), view]).find(([match]) => match);
  for (const link of views.querySelectorAll("a")) {
    const isHere = link.hash === "#/" ? address === "#/" : address.startsWith(link.hash);
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    const content = found
      ? await found[1](api, ending.signal, ...found[0].slice(1).map(decodeURIComponent))
      : [make("h1", {}, "There is no such view")];
    if (ending.signal.aborted) return;
    main.replaceChildren(...content);
    frame();
    document.title = `${main.querySelector("h1")?.textContent ?? ""} – svc-cluster console`;
    main.focus();
  } catch (failure) {
    if (ending.signal.aborted) return;
    frame();
    main.replaceChildren(make("h1", {}, "This cannot be shown"),
      make("p", { class: "bad", role: "alert" }, said(failure)),
      make("button", { type: "button", onclick: show }, "Try again"));
    main.focus();
  }
}

function said(failure) {
  if (!(failure instanceof Refusal)) return `The service cannot be reached: ${failure.message}`;
  return `${failure.message} (${failure.status}${failure.requestId ? `, request ${failure.requestId}` : ""})`;
}

function frame() {
  views.hidden = false;
  who.replaceChildren(...(api.isSignedIn
    ? [make("button", { type: "button", onclick: signOut }, "Sign out")]
    : []));
}

function signOut() {
  api.signOut();
  main.replaceChildren();
  show();
}

// Without a token that is known nothing is shown, whoever asked: what was there is taken away.
function login(refusal) {
  shown.abort();
  tell("");
  const wasWrong = api.isSignedIn;
  api.signOut();
  views.hidden = true;
  who.replaceChildren();
  const field = make("input", { type: "password", autocomplete: "off", required: true, size: 48 });
  const enter = (event) => {
    event.preventDefault();
    api.signIn(field.value.trim());
    show();
  };
  main.replaceChildren(make("h1", {}, "Sign in"),
    wasWrong ? make("p", { class: "bad", role: "alert" }, refusal.message) : "",
    make("form", { class: "column", onsubmit: enter }, labelled("Access token", field),
      make("p", { class: "soft" }, "It stays in this page's memory and is forgotten with it."),
      make("button", { class: "first" }, "Sign in")));
  document.title = "Sign in – svc-cluster console";
  field.focus();
}

document.getElementById("skip").addEventListener("click", () => main.focus());
window.addEventListener("hashchange", show);
// what a view has begun and nobody waits for
window.addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  if (event.reason?.name === "AbortError") return;
  // the login is there already
  if (event.reason instanceof Refusal && event.reason.status === 401) return;
  tell(said(event.reason), true);
});
api.onUnknownToken = login;
show();
