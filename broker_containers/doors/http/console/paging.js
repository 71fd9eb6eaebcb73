// Lists that the broker searches and cuts into pages; text and place are in the address.

import { count } from "./format.js";
import { html, useEffect, useState } from "./html.js";
import { setQuery } from "./router.js";

/** A search field whose text goes to the address, and back to the first page. */
export function SearchField({ label, text: asked = "", placeholder = "a part of the name" }) {
  const [text, setText] = useState(asked);
  useEffect(() => setText(asked), [asked]);
  useEffect(() => {
    if (text === asked) return undefined;
    const timer = setTimeout(() => setQuery({ text, skip: undefined }), 200);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<label class="field grow"><span>${label}</span>
    <input type="search" value=${text} placeholder=${placeholder} onInput=${(event) => setText(event.target.value)} /></label>`;
}

/** Which part of a list is shown, with buttons for the others. */
export function Pages({ skip, size, total }) {
  if (!total) return null;
  return html`<div class="pages">
    <span class="muted">${count(Math.min(skip + 1, total))} to ${count(Math.min(skip + size, total))} of ${count(total)}</span>
    <span class="actions">
      <button type="button" disabled=${skip === 0} onClick=${() => setQuery({ skip: Math.max(0, skip - size) || undefined }, false)}>Previous</button>
      <button type="button" disabled=${skip + size >= total} onClick=${() => setQuery({ skip: skip + size }, false)}>Next</button>
    </span></div>`;
}
