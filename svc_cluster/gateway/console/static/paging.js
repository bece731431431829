// A list that is longer than a page: what is there so far, and a button for more.

import { make } from "/console/dom.js";

export const PAGE = 50;

// `ask(startAfter)` gives `{items, hasMore}`; `shown(items)` gives an element.
export async function paged(ask, shown, nameOf) {
  const place = make("div");
  const more = make("button", { type: "button" }, "More");
  let items = [];
  const next = async () => {
    more.disabled = true;
    const page = await ask(items.length ? nameOf(items.at(-1)) : "");
    items = [...items, ...page.items];
    place.replaceChildren(shown(items));
    more.hidden = !page.hasMore;
    more.disabled = false;
  };
  more.addEventListener("click", next);
  await next();
  return [place, more];
}
