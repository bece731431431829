// Access tokens: those that may be seen, a new one within what the own one may, and their end.

import { labelled, make, table, tell } from "/console/dom.js";
import { PAGE, paged } from "/console/paging.js";

const GROUPS = ["account", "basin", "stream"];

function nameSet(text) {
  const name = text.trim();
  if (!name) return null;
  return name.endsWith("*") ? { prefix: name.slice(0, -1) } : { exact: name };
}

function toldSet(set) {
  if (!set) return "none";
  if (set.prefix !== undefined) return `${set.prefix}*`;
  return set.exact || "none";
}

function operations(scope) {
  const groups = GROUPS.flatMap((group) => ["read", "write"]
    .filter((half) => scope.op_groups?.[group]?.[half]).map((half) => `${group}:${half}`));
  return [...groups, ...(scope.ops ?? [])].join(", ") || "none";
}

export async function showTokens(api, signal) {
  const place = make("div");
  const fill = async () => {
    const ask = async (startAfter) => {
      const told = await api.ask("GET", "/v1/access-tokens", { query: { limit: PAGE, start_after: startAfter }, signal });
      return { items: told.access_tokens, hasMore: told.has_more };
    };
    const list = await paged(ask, (tokens) => table("Access tokens",
      [["Id"], ["Operations"], ["Basins"], ["Streams"], ["Tokens"], ["Expires"], [""]],
      tokens.map((token) => [token.id, operations(token.scope), toldSet(token.scope.basins), toldSet(token.scope.streams),
        toldSet(token.scope.access_tokens), token.expires_at ?? "never", revoker(api, token.id, fill)])), (token) => token.id);
    place.replaceChildren(...list);
  };
  await fill();
  return [make("h1", {}, "Access tokens"), place, make("h2", {}, "Issue a token"),
    make("p", { class: "soft" }, "It may do no more than yours, ends with yours, and dies when yours is revoked. "
      + "A name with * at its end stands for all that begin so."), issueForm(api, fill)];
}

function revoker(api, id, fill) {
  const button = make("button", { type: "button", class: "harm", "aria-label": `Revoke ${id}` }, "Revoke");
  button.addEventListener("click", async () => {
    if (button.dataset.asked !== "yes") {
      button.dataset.asked = "yes";
      button.textContent = "Revoke it and its children?";
      return;
    }
    await api.ask("DELETE", `/v1/access-tokens/${encodeURIComponent(id)}`);
    tell(`${id} is revoked, with all that were issued under it.`);
    await fill();
  });
  return button;
}

function issueForm(api, fill) {
  const id = make("input", { required: true, maxlength: 96 });
  const basins = make("input", { value: "*" });
  const streams = make("input", { value: "*" });
  const tokens = make("input");
  const days = make("input", { type: "number", min: 1, value: "30" });
  const boxes = GROUPS.flatMap((group) => ["read", "write"].map((half) =>
    [group, half, make("input", { type: "checkbox" })]));
  const secret = make("p", { id: "secret", role: "status" });
  const issue = async (event) => {
    event.preventDefault();
    const op_groups = {};
    for (const [group, half, box] of boxes) {
      if (box.checked) (op_groups[group] ??= {})[half] = true;
    }
    const scope = { basins: nameSet(basins.value), streams: nameSet(streams.value), access_tokens: nameSet(tokens.value), op_groups };
    const expires_at = days.value ? new Date(Date.now() + Number(days.value) * 86400000).toISOString() : null;
    const told = await api.ask("POST", "/v1/access-tokens", { body: { id: id.value, scope, expires_at } });
    secret.replaceChildren("The secret, told this once: ", make("code", {}, told.access_token));
    await fill();
  };
  return make("form", { class: "column", onsubmit: issue }, labelled("Id", id), labelled("Basins", basins),
    labelled("Streams", streams), labelled("Access tokens", tokens), labelled("Days until it expires", days),
    make("fieldset", {}, make("legend", {}, "Operations"),
      boxes.map(([group, half, box]) => labelled(`${group}: ${half}`, box, true))),
    make("button", { class: "first" }, "Issue"), secret);
}
