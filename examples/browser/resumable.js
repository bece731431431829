// Append exactly once, and follow without a gap, in a page. A page holds no access token that may
// write for long: `append` takes one that is good for one stream; `follow` asks `newTicket` (your own
// server) for a read ticket, and for the next one when that has ended.

const PAUSE_MS = 200;
const FOR_GOOD = ["stream_deletion_pending", "stream_not_found", "basin_not_found"];
const pause = (ms) => new Promise((over) => setTimeout(over, ms));

function path(service, basin, stream) {
  return `${service}/v1/basins/${basin}/streams/${encodeURIComponent(stream)}`;
}

// The sequence number of the first. One request token for every attempt: the batch is carried out
// once, however often it is asked for. A page that may be reloaded between two attempts gives a token
// that it has kept.
export async function append(service, token, basin, stream, bodies, requestToken) {
  const request = {
    method: "POST",
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      "svc-format": "utf8",
      "svc-request-token": requestToken ?? crypto.randomUUID(),
    },
    body: JSON.stringify({ records: bodies.map((body) => ({ body })) }),
  };
  for (;;) {
    let answer;
    try {
      answer = await fetch(`${path(service, basin, stream)}/append`, request);
    } catch {
      await pause(PAUSE_MS); // it may have happened: the token keeps it from doubling
      continue;
    }
    if (answer.ok) return (await answer.json()).start.seq_num;
    if (![408, 429].includes(answer.status) && answer.status < 500) {
      throw new Error(`${answer.status} ${(await answer.json()).message}`);
    }
    await pause(Number(answer.headers.get("retry-after-ms") ?? PAUSE_MS));
  }
}

// Calls `onRecord` with each record once and in order, from `from` on. The browser reconnects by
// itself and says what it has seen (Last-Event-ID); when it gives up, or the ticket has ended, a new
// source goes on behind the last record. Returns a function that ends it.
export function follow(service, basin, stream, newTicket, onRecord, onEnd = () => {}, from = 0) {
  let next = from;
  let source = null;
  let ended = false;
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
    source.addEventListener("batch", (event) => {
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
      else again();
    });
    return undefined;
  };
  const again = () => pause(PAUSE_MS).then(() => (ended ? undefined : open()));
  open();
  return () => {
    ended = true;
    source?.close();
  };
}
