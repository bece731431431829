// One stream: its records as they come, from where one likes, and appending to it.

import { newRequestToken, Refusal, streamPath } from "/console/api.js";
import { alone, labelled, make, tell, time } from "/console/dom.js";

const ROWS_MAX = 2000;
const SHOWN_CHARACTERS_MAX = 10000;
const SHOWN_HEADERS_MAX = 50;
const RECORDS_AT_ONCE = 1000;
const BEFORE_TAIL = 20;

export function decoded(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

export function encoded(text) {
  const bytes = new TextEncoder().encode(text);
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8192) {
    binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return btoa(binary);
}

// Text where it is text, JSON laid out where it is JSON, else bytes in hexadecimal.
export function readable(base64) {
  const bytes = decoded(base64 ?? "");
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    text = Array.from(bytes.subarray(0, SHOWN_CHARACTERS_MAX / 3), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
    return cut(text, bytes.length * 3 > text.length + 3, bytes.length);
  }
  if (/^\s*[[{]/.test(text) && text.length <= SHOWN_CHARACTERS_MAX) {
    try {
      // numbers keep their digits: what is laid out is checked to be the same value, and else shown as it is
      const laidOut = JSON.stringify(JSON.parse(text), null, 1);
      if (laidOut.replace(/\s/g, "") === text.replace(/\s/g, "")) return laidOut;
    } catch {
      return text;
    }
  }
  return cut(text.slice(0, SHOWN_CHARACTERS_MAX), text.length > SHOWN_CHARACTERS_MAX, bytes.length);
}

function cut(text, isCut, length) {
  return isCut ? `${text}… (${length} bytes)` : text;
}

function row(record) {
  const headers = record.headers ?? [];
  const shown = headers.slice(0, SHOWN_HEADERS_MAX).map(([name, value]) =>
    `${readable(name) || "(command)"}: ${readable(value)}`);
  if (headers.length > shown.length) shown.push(`… ${headers.length} headers`);
  return make("li", { "data-seq-num": record.seq_num },
    make("div", { class: "at" }, `${record.seq_num} · ${time(record.timestamp)}`),
    shown.length ? make("pre", { class: "soft" }, shown.join("\n")) : null,
    make("pre", {}, readable(record.body)));
}

// Of a time that is written as a date, or as the number that a stream has where that is no date.
function milliseconds(text) {
  return /^\d+$/.test(text) ? text : String(Date.parse(text.replace(" ", "T").replace(/Z?$/, "Z")));
}

export async function showStream(api, signal, basin, stream) {
  const told = await api.ask("GET", streamPath(basin, stream, "/tail"), { signal });
  const list = make("ol", { id: "records", tabindex: "0", "aria-label": "Records" });
  const state = make("span", { id: "state", role: "status" }, "");
  const count = make("span", { id: "count" }, "0");
  const pause = make("button", { type: "button", id: "pause" }, "Pause");
  const tail = new Tail(api, basin, stream, signal, { list, state, count, pause });

  const from = make("select", {},
    make("option", { value: "tail_offset" }, "so many before the tail"),
    make("option", { value: "seq_num" }, "sequence number"),
    make("option", { value: "timestamp" }, "time (UTC)"));
  const value = make("input", { id: "start", value: String(BEFORE_TAIL), size: 24 });
  from.addEventListener("change", () => {
    value.value = { tail_offset: String(BEFORE_TAIL), seq_num: "0", timestamp: time(told.tail.timestamp || Date.now()) }[from.value];
  });
  const key = make("input", { type: "password", autocomplete: "off", size: 24 });
  const seek = (event) => {
    event.preventDefault();
    const text = value.value.trim();
    const wanted = from.value === "timestamp" ? milliseconds(text) : text;
    if (!/^\d+$/.test(wanted)) {
      tell(from.value === "timestamp" ? "A time looks so: 2026-01-31 12:00:00, or is a number of milliseconds"
        : "A whole number is needed", true);
      return;
    }
    tail.seek({ start: { [from.value]: wanted } }, key.value.trim());
  };
  tail.seek({ start: { seq_num: Math.max(0, told.tail.seq_num - BEFORE_TAIL) }, isSettled: true }, "");
  return [make("h1", {}, stream),
    make("p", {}, make("a", { href: `#/basins/${encodeURIComponent(basin)}` }, basin),
      ` · the next record gets number ${told.tail.seq_num}`),
    make("form", { onsubmit: seek }, labelled("Begin at", from), labelled("Where", value),
      labelled("Record key, where it is encrypted", key),
      make("button", { class: "first" }, "Show"), pause),
    make("p", { class: "soft" }, state, " · ", count, " records came"),
    list, ...appendForm(api, basin, stream, key)];
}

// Follows and shows. A pause ends the connection and keeps the place, so that nothing is gathered
// meanwhile, and nothing is missing after it.
class Tail {
  constructor(api, basin, stream, signal, { list, state, count, pause }) {
    Object.assign(this, { api, basin, stream, list, state, count, pause });
    this.came = 0;
    this.place = {};
    this.key = "";
    this.running = null;
    pause.addEventListener("click", () => this.toggle());
    signal.addEventListener("abort", () => this.stop());
  }

  seek(place, key) {
    this.stop();
    this.list.replaceChildren();
    Object.assign(this, { place, key, came: 0 });
    this.count.textContent = "0";
    this.run();
  }

  toggle() {
    if (!this.running) {
      this.run();
      return;
    }
    this.stop();
    this.state.textContent = "paused";
  }

  stop() {
    this.running?.abort();
    this.running = null;
    this.pause.textContent = "Go on";
  }

  async run() {
    const running = (this.running = new AbortController());
    this.pause.textContent = "Pause";
    const onState = (text) => { if (!running.signal.aborted) this.state.textContent = text; };
    onState("connecting");
    const options = { key: this.key, signal: running.signal, onState };
    try {
      for await (const records of this.api.follow(this.basin, this.stream, this.place, options)) {
        if (running.signal.aborted) return;
        this.show(records);
      }
    } catch (failure) {
      if (running.signal.aborted) return;
      onState(`ended: ${failure.message}`);
      this.stop();
    }
  }

  show(records) {
    const isAtEnd = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 40;
    this.list.append(...records.map(row));
    while (this.list.childElementCount > ROWS_MAX) this.list.firstElementChild.remove();
    this.came += records.length;
    this.count.textContent = String(this.came);
    if (isAtEnd) this.list.scrollTop = this.list.scrollHeight;
  }
}

function appendForm(api, basin, stream, key) {
  const body = make("textarea", { rows: 4, id: "body" });
  const lines = make("input", { type: "checkbox" });
  const button = make("button", { class: "first" }, "Append");
  // what was sent and has no answer that says how it went: the same once more is the same append
  let open = {};
  const append = async () => {
    const text = body.value;
    const texts = lines.checked ? text.split("\n").filter((line) => line) : [text];
    if (texts.length > RECORDS_AT_ONCE) {
      tell(`An append has at most ${RECORDS_AT_ONCE} records; these are ${texts.length}.`, true);
      return;
    }
    const secret = key.value.trim();
    const what = JSON.stringify([secret, texts]);
    if (open.what !== what) open = { what, token: newRequestToken() };
    const headers = { "svc-request-token": open.token, ...(secret ? { "svc-encryption-key": secret } : {}) };
    let first, behind;
    try {
      const ack = await api.ask("POST", streamPath(basin, stream, "/append"),
        { headers, body: { records: texts.map((each) => ({ body: encoded(each) })) } });
      [first, behind] = [ack.start.seq_num, ack.end.seq_num];
    } catch (failure) {
      if (failure instanceof Refusal && !failure.mayHaveTakenEffect) open = {};
      else failure.message += " – it may be appended; press Append again, and it is there once";
      throw failure;
    }
    open = {};
    tell(`Appended: ${first} to ${behind - 1}, on the disks of a majority.`);
    if (body.value === text) body.value = "";
  };
  const submit = (event) => {
    event.preventDefault();
    return alone(button, append);
  };
  return [make("h2", {}, "Append"),
    make("form", { class: "column", onsubmit: submit }, labelled("Body", body),
      labelled("A record for each line", lines, true), button)];
}
