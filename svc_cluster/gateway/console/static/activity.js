// What was done to the control plane through this gateway, newest first, as its audit log has it.

import { Refusal } from "/console/api.js";
import { make, table } from "/console/dom.js";

const NAMES = ["basin", "stream", "token_id", "location"];

export async function showActivity(api, signal) {
  let told;
  try {
    told = await api.ask("GET", "/v1/activity", { signal });
  } catch (failure) {
    if (!(failure instanceof Refusal) || failure.status !== 403) throw failure;
    return [make("h1", {}, "Activity"), make("p", {}, "The audit log is told to access tokens for everything only.")];
  }
  const rows = told.events.map((event) => [event.time, event.operation, event.token,
    NAMES.filter((name) => event[name]).map((name) => `${name} ${event[name]}`).join(", "),
    `${event.status ?? ""} ${event.code ?? ""}`.trim(), event.effect]);
  return [make("h1", {}, "Activity"),
    make("p", { class: "soft" }, "Of this gateway, since it was started; the audit log itself has everything."),
    table("Events, newest first", [["Time"], ["Operation"], ["Access token"], ["Of"], ["Answer"], ["Effect"]], rows)];
}
