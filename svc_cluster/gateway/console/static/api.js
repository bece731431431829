// The public interface, as this page uses it. The access token lives in this object and dies with
// the page: it is in no storage, no address and no cookie.

const EVENT_CHARACTERS_MAX = 32 * 1024 * 1024;
const PAUSE_MS_MIN = 200;
const PAUSE_MS_MAX = 5000;

export class Refusal extends Error {
  constructor(status, said, requestId) {
    super(said.message ?? said.code ?? `status ${status}`);
    this.status = status;
    this.code = said.code ?? "";
    this.requestId = requestId ?? "";
    this.mayHaveTakenEffect = said.may_have_taken_effect !== false;
  }
}

export function streamPath(basin, stream, behind = "") {
  return `/v1/basins/${encodeURIComponent(basin)}/streams/${encodeURIComponent(stream)}${behind}`;
}

// `JSON.parse` makes a double of each number, which has other digits beyond 2^53, and says nothing.
// Whole numbers that it would change become text, digit by digit. What stands in strings stays.
const VALUES = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;

export function parsed(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text.replace(VALUES, (value) =>
    (/^-?\d+$/.test(value) && !Number.isSafeInteger(Number(value)) ? `"${value}"` : value)));
}

// A name for one write, under which it takes effect once however often it is sent.
// (`crypto.randomUUID` is not there on pages over plain HTTP.)
export function newRequestToken() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Api {
  // Called with each refusal that says that the token is not known, or not any more.
  onUnknownToken = () => {};
  #token = "";

  get isSignedIn() {
    return this.#token !== "";
  }

  signIn(token) {
    this.#token = token;
  }

  signOut() {
    this.#token = "";
  }

  #headers(more) {
    const headers = { ...more };
    if (this.#token) headers.authorization = `Bearer ${this.#token}`;
    return headers;
  }

  async #fetched(method, path, { query = {}, body, headers = {}, signal } = {}) {
    const wanted = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
    const url = wanted.length ? `${path}?${new URLSearchParams(wanted)}` : path;
    const token = this.#token;
    const all = this.#headers(headers);
    if (body !== undefined) all["content-type"] = "application/json";
    const answer = await fetch(url, {
      method, headers: all, signal, cache: "no-store", redirect: "error",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (!answer.ok) {
      const said = await answer.json().catch(() => ({}));
      throw this.#refusal(token, answer.status, said, answer.headers.get("x-request-id"));
    }
    return answer;
  }

  // Of what was asked with `token`: of one from before it says nothing about today's.
  #refusal(token, status, said, requestId) {
    const refusal = new Refusal(status, said, requestId);
    if (status === 401 && token === this.#token) this.onUnknownToken(refusal);
    return refusal;
  }

  // The answer's JSON; null where it has no body.
  async ask(method, path, options) {
    const answer = await this.#fetched(method, path, options);
    const text = await answer.text();
    return text ? parsed(text) : null;
  }

  // The records of a stream from `place.start` on, for ever, as they come. `place` is kept where this
  // has come to, so that whoever goes on with it later loses and doubles nothing; the same holds for a
  // connection that ends. Ends when `signal` is aborted; throws what a refusal says.
  async *follow(basin, stream, place, { key = "", signal, onState = () => {} }) {
    const path = streamPath(basin, stream, "/read");
    const format = { "svc-format": "base64", ...(key ? { "svc-encryption-key": key } : {}) };
    let pause = PAUSE_MS_MIN;
    while (!signal.aborted) {
      try {
        await this.#settle(path, place, format, signal);
        const token = this.#token;
        const headers = { ...format, accept: "text/event-stream" };
        if (place.id) headers["last-event-id"] = place.id;
        const answer = await this.#fetched("GET", path, { query: place.start, headers, signal });
        onState("live");
        for await (const event of events(answer.body)) {
          pause = PAUSE_MS_MIN;
          if (event.data === "[DONE]") return;
          if (event.name === "error") {
            const said = JSON.parse(event.data);
            // a server that stops asks for another connection
            if (said.code === "server_draining" || said.code === "unavailable") break;
            throw this.#refusal(token, said.code === "authn" ? 401 : 200, said, "");
          }
          if (event.name === "batch") {
            yield parsed(event.data).records;
            // behind what is done with them: records that were not taken come again
            place.id = event.id;
          }
        }
      } catch (failure) {
        if (signal.aborted) return;
        const mayPass = !(failure instanceof Refusal) || failure.status >= 500 || failure.status === 429;
        if (!mayPass) throw failure;
      }
      onState("connecting again");
      await passed(pause, signal);
      pause = Math.min(2 * pause, PAUSE_MS_MAX);
    }
  }

  // Makes the start a number, once. So many before the tail, a time that nothing has reached and a
  // number behind the tail are another place a moment later: what comes between two connections
  // before the first record would be passed over.
  async #settle(path, place, headers, signal) {
    if (place.isSettled) return;
    const query = { ...place.start, clamp: "true", count: "1" };
    const answer = await this.#fetched("GET", path, { query, headers, signal });
    const { records, tail } = parsed(await answer.text());
    Object.assign(place, { start: { seq_num: records[0]?.seq_num ?? tail.seq_num }, isSettled: true });
  }
}

function passed(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

// The events of a body, as they are written there.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += value;
      if (rest.length > EVENT_CHARACTERS_MAX) throw new Error("an event is too long");
      let end;
      while ((end = rest.indexOf("\n\n")) >= 0) {
        const lines = rest.slice(0, end).split("\n");
        rest = rest.slice(end + 2);
        const event = { name: "message", id: "", data: "" };
        for (const line of lines) {
          const colon = line.indexOf(":");
          const field = line.slice(0, colon);
          const text = line.slice(colon + 1).replace(/^ /, "");
          if (field === "event") event.name = text;
          else if (field === "id") event.id = text;
          else if (field === "data") event.data += event.data ? `\n${text}` : text;
        }
        yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
