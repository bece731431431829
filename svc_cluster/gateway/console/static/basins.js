// The basins, and one of them with its streams and its use.

import { bytes, labelled, make, spark, table, tell } from "/console/dom.js";
import { PAGE, paged } from "/console/paging.js";

const HOUR_SECONDS = 3600;
const AT_ONCE = 4;

// What a set of the usage series tells of the last hour, minute by minute.
export async function lastHour(api, path, set, signal) {
  const end = Math.floor(Date.now() / 1000);
  const start = end - HOUR_SECONDS;
  const query = { set, start, end };
  if (set !== "storage") query.interval = "minute";
  const told = await api.ask("GET", path, { query, signal });
  const minutes = Array(60).fill(0);
  for (const value of told.values) {
    const series = value.accumulation ?? value.gauge;
    for (const [at, count] of series.values) {
      const minute = Math.floor((at - start) / 60);
      if (minute >= 0 && minute < 60) minutes[minute] += count;
    }
  }
  return minutes;
}

function basinPath(name) {
  return `#/basins/${encodeURIComponent(name)}`;
}

export async function showBasins(api, signal) {
  const ask = async (startAfter) => {
    const told = await api.ask("GET", "/v1/basins", { query: { limit: PAGE, start_after: startAfter }, signal });
    return { items: told.basins, hasMore: told.has_more };
  };
  const rows = new Map();
  const list = await paged(ask, (basins) => {
    const cells = basins.map((basin) => {
      if (!rows.has(basin.name)) rows.set(basin.name, make("span", { class: "soft" }, "…"));
      return [make("a", { href: basinPath(basin.name) }, basin.name), basin.state,
        basin.location ?? "", basin.created_at, rows.get(basin.name)];
    });
    return table("Basins", [["Name"], ["State"], ["Location"], ["Created"], ["Appended, last hour"]], cells);
  }, (basin) => basin.name);
  sparks(api, rows, signal);
  const name = make("input", { required: true, minlength: 8, maxlength: 48, pattern: "[a-z0-9][a-z0-9\\-]*[a-z0-9]" });
  const create = async (event) => {
    event.preventDefault();
    await api.ask("POST", "/v1/basins", { body: { basin: name.value } });
    tell(`The basin ${name.value} is made.`);
    location.hash = basinPath(name.value);
  };
  return [make("h1", {}, "Basins"), ...list,
    make("form", { onsubmit: create }, labelled("New basin", name), make("button", { class: "first" }, "Create"))];
}

// A line for each basin that is shown, a few asked for at once.
async function sparks(api, rows, signal) {
  const waiting = [...rows];
  const one = async () => {
    for (let next; (next = waiting.shift()) && !signal.aborted;) {
      const [name, cell] = next;
      try {
        const minutes = await lastHour(api, `/v1/metrics/${name}`, "append-throughput", signal);
        const sum = minutes.reduce((total, each) => total + each, 0);
        cell.replaceChildren(spark(minutes, `${bytes(sum)} appended in the last hour`), bytes(sum));
      } catch {
        cell.replaceChildren("not told");
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
}

export async function showBasin(api, signal, basin) {
  const path = `/v1/basins/${encodeURIComponent(basin)}`;
  const config = await api.ask("GET", path, { signal });
  const ask = async (startAfter) => {
    const told = await api.ask("GET", `${path}/streams`, { query: { limit: PAGE, start_after: startAfter }, signal });
    return { items: told.streams, hasMore: told.has_more };
  };
  const list = await paged(ask, (streams) => table("Streams", [["Name"], ["Created"], ["Cipher"], ["State"]],
    streams.map((stream) => [
      make("a", { href: `${basinPath(basin)}/streams/${encodeURIComponent(stream.name)}` }, stream.name),
      stream.created_at, stream.cipher ?? "none", stream.deleted_at ? "being deleted" : "active"])),
  (stream) => stream.name);
  const name = make("input", { required: true, maxlength: 512 });
  const create = async (event) => {
    event.preventDefault();
    await api.ask("POST", `${path}/streams`, { body: { stream: name.value } });
    location.hash = `${basinPath(basin)}/streams/${encodeURIComponent(name.value)}`;
  };
  const use = make("ul", { class: "cards" });
  showUse(api, basin, use, signal);
  return [make("h1", {}, basin), make("h2", {}, "The last hour"), use, make("h2", {}, "Streams"), ...list,
    make("form", { onsubmit: create }, labelled("New stream", name), make("button", { class: "first" }, "Create")),
    make("details", {}, make("summary", {}, "Configuration"), make("pre", {}, JSON.stringify(config, null, 1)))];
}

async function showUse(api, basin, place, signal) {
  const kinds = [["append-throughput", "Appended", bytes], ["read-throughput", "Read", bytes],
    ["append-ops", "Append operations", String], ["read-ops", "Read operations", String]];
  for (const [set, text, shown] of kinds) {
    try {
      const minutes = await lastHour(api, `/v1/metrics/${encodeURIComponent(basin)}`, set, signal);
      const sum = minutes.reduce((total, each) => total + each, 0);
      place.append(make("li", {}, `${text}: ${shown(sum)}`, spark(minutes, `${text}, minute by minute`)));
    } catch {
      if (signal.aborted) return;
      place.append(make("li", {}, `${text}: not told to this access token`));
    }
  }
}
