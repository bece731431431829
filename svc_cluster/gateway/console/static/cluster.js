// The nodes as they are now, and which of them leads which basin.

import { Refusal } from "/console/api.js";
import { bytes, make, table } from "/console/dom.js";

const PERIOD_MS = 3000;
const BASINS_MAX = 1000;

export async function showCluster(api, signal) {
  const nodes = make("ul", { class: "cards", id: "nodes" });
  const leaders = make("div");
  const asOf = make("span", { class: "soft" });
  const gateway = make("p");
  const look = async () => {
    const told = await api.ask("GET", "/v1/cluster", { signal });
    if (signal.aborted) return;
    gateway.textContent = `This gateway: version ${told.gateway.version}`;
    nodes.replaceChildren(...told.nodes.map(card));
    leaders.replaceChildren(leading(told.nodes));
    asOf.textContent = `as of ${new Date().toLocaleTimeString()}`;
  };
  try {
    await look();
  } catch (failure) {
    if (!isNotForIt(failure)) throw failure;
    return withheld();
  }
  const view = make("div", {}, make("h1", {}, "Cluster"), gateway, make("h2", {}, "Nodes ", asOf), nodes,
    make("h2", {}, "Leaders"), leaders);
  const timer = setInterval(() => {
    if (document.visibilityState !== "visible") return;
    look().catch((failure) => {
      if (signal.aborted) return;
      if (!isNotForIt(failure)) {
        asOf.textContent = `not told any more: ${failure.message}`;
        return;
      }
      // what it may not see does not stay on the page either
      clearInterval(timer);
      view.replaceChildren(...withheld());
    });
  }, PERIOD_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  return [view];
}

function isNotForIt(failure) {
  return failure instanceof Refusal && failure.status === 403;
}

function withheld() {
  return [make("h1", {}, "Cluster"), make("p", {}, "Your access token is for some basins only: what concerns all "
    + "of them is not told to it. ", make("a", { href: "#/basins" }, "To the basins"))];
}

function card(node) {
  const drains = node.state === "draining";
  const place = [["Zone", node.zone || "not said"], ["Host", node.host || "not said"]];
  if (!node.is_up) {
    return make("li", { "data-node": node.node_id }, make("strong", {}, `Node ${node.node_id}`),
      make("div", { class: "bad" }, drains ? "does not answer, is being drained" : "does not answer"),
      listed(place));
  }
  const facts = [
    ...place,
    ["Version", node.version],
    ["Leads", `${node.groups_led} of ${node.groups} groups`],
    ["Without a leader", node.groups_without_leader],
    ["Behind, at most", `${node.lag_entries} entries`],
    ["Stopped or parked", node.groups_held],
    ["Log", bytes(node.wal_bytes)],
    ["Free on the disk", bytes(node.free_bytes)],
  ];
  const isWell = node.takes_appends && node.groups_without_leader === 0 && node.groups_held === 0;
  const said = isWell ? "well" : node.takes_appends ? "needs a look" : "its disk is full";
  return make("li", { "data-node": node.node_id }, make("strong", {}, `Node ${node.node_id} `),
    make("span", { class: isWell ? "good" : "bad" },
      [said, ...(drains ? ["is being drained"] : []), ...(node.is_draining ? ["gives its leaderships away"] : [])].join(", ")),
    listed(facts));
}

function listed(facts) {
  return make("dl", {}, facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]));
}

function leading(nodes) {
  const rows = nodes.flatMap((node) => (node.leads ?? []).map((basin) => [basin, String(node.node_id)]));
  rows.sort(([one], [other]) => (one < other ? -1 : 1));
  const shown = rows.slice(0, BASINS_MAX).map(([basin, node]) => [
    basin ? make("a", { href: `#/basins/${encodeURIComponent(basin)}` }, basin) : "(the catalog)", node]);
  return table(rows.length > shown.length ? `The first ${BASINS_MAX} basins and who leads them` : "Basins and who leads them",
    [["Basin"], ["Node", true]], shown);
}
