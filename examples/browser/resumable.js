// Append exactly once, and follow without a gap, in a page. A page holds no access token that may
// write for long: `append` takes one that may append to one stream; `follow` asks `newTicket` (your own
// server, which makes the stream: a ticket does not) for a read ticket, and for the next one when that
// has ended.

const PAUSE_MS = 200;
const PAUSE_MS_MAX = 10_000;
const PASSES = [401, 408, 429]; // 401: the ticket has ended, the next one is good
const FOR_GOOD = ["stream_deletion_pending", "stream_not_found", "basin_not_found"];
const pause = (ms) => new Promise((over) => setTimeout(over, ms));

function path(service, basin, stream) {
  return `${service}/v1/basins/${basin}/streams/${encodeURIComponent(stream)}`;
}

// Without `crypto.randomUUID`, which pages that came over plain HTTP do not have.
function newRequestToken() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// The sequence number of the first. One request token for every attempt: the batch is carried out
// once, however often it is asked for. A page that may be reloaded between two attempts gives a token
// (1 to 36 characters) that it has kept.
export async function append(service, token, basin, stream, bodies, requestToken) {
  const request = {
    method: "POST",
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      "svc-format": "utf8",
      "svc-request-token": requestToken ?? newRequestToken(),
    },
    body: JSON.stringify({ records: bodies.map((body) => ({ body })) }),
  };
  for (;;) {
    let answer, text;
    try {
      answer = await fetch(`${path(service, basin, stream)}/append`, request);
      text = await answer.text(); // a connection may end behind the head, too
    } catch {
      await pause(PAUSE_MS); // it may have happened: the token keeps it from doubling
      continue;
    }
    if (answer.ok) return JSON.parse(text).start.seq_num;
    if (![408, 429].includes(answer.status) && answer.status < 500) {
      throw new Error(`${answer.status} ${text}`);
    }
    await pause(Number(answer.headers.get("retry-after-ms") ?? PAUSE_MS));
  }
}

// Calls `onRecord` with each record once and in order, from `from` on. The browser reconnects by
// itself and says what it has seen (Last-Event-ID); when it gives up, or the ticket has ended, a new
// source goes on behind the last record, after pauses that grow while nothing comes. Calls `onEnd` with
// the code of a refusal that will stay, such as that of a stream that is not there. Returns a function
// that ends it.
export function follow(service, basin, stream, newTicket, onRecord, onEnd = () => {}, from = 0) {
  let next = from;
  let source = null;
  let ended = false;
  let wait = PAUSE_MS;
  const open = async () => {
    let ticket;
    try {
      ticket = await newTicket();
    } catch {
      return again();
    }
    if (ended) return undefined;
    const query = new URLSearchParams({ seq_num: next, clamp: true, format: "utf8", ticket });
    source = new EventSource(`${path(service, basin, stream)}/read?${query}`);
    source.addEventListener("ping", () => (wait = PAUSE_MS));
    source.addEventListener("batch", (event) => {
      wait = PAUSE_MS;
      for (const record of JSON.parse(event.data).records) {
        next = record.seq_num + 1;
        onRecord(record);
      }
    });
    source.addEventListener("error", (event) => {
      const code = event.data ? JSON.parse(event.data).code : null;
      if (code === null && source.readyState !== EventSource.CLOSED) return; // it comes again
      source.close();
      if (FOR_GOOD.includes(code)) onEnd(code);
      else if (code === null) refusal(ticket).then((why) => (why === null ? again() : over(why)));
      else again();
    });
    return undefined;
  };
  // A source does not say why it was closed: the same read, as a page, is refused for the same reason.
  const refusal = async (ticket) => {
    try {
      const query = new URLSearchParams({ seq_num: next, clamp: true, count: 1, ticket });
      const url = `${path(service, basin, stream)}/read?${query}`;
      const answer = await fetch(url, { cache: "no-store" });
      if (answer.ok || answer.status >= 500 || PASSES.includes(answer.status)) return null;
      return await answer.json().then((said) => said.code, () => String(answer.status));
    } catch {
      return null;
    }
  };
  const over = (why) => (ended ? undefined : onEnd(why));
  const again = () => {
    const before = wait;
    wait = Math.min(2 * wait, PAUSE_MS_MAX);
    return pause(before).then(() => (ended ? undefined : open()));
  };
  open();
  return () => {
    ended = true;
    source?.close();
  };
}
