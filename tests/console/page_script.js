// Acts in the page as a person would: finds things by what can be read, and uses them.

window.person = {
  visible: (element) => element.getClientRects().length > 0,

  sees: (text) => document.body.innerText.includes(text),

  /** The topmost dialog, or the page. */
  place: () => [...document.querySelectorAll("dialog[open]")].at(-1) ?? document,

  click(text) {
    const all = [...person.place().querySelectorAll("button, a, summary, .clickable")];
    const named = (each) => (each.getAttribute("aria-label") || each.innerText).trim();
    const shown = all.filter((each) => person.visible(each) && !each.disabled);
    const found = shown.find((each) => named(each) === text) ?? shown.find((each) => named(each).includes(text));
    if (found) found.click();
    return Boolean(found);
  },

  fill(label, text) {
    const labels = [...person.place().querySelectorAll("label")];
    const found = labels.find((each) => person.visible(each) && each.innerText.trim().startsWith(label));
    const field = found?.querySelector("input, textarea, select");
    if (!field) return false;
    const value = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), "value");
    value.set.call(field, text);
    field.dispatchEvent(new Event("input", { bubbles: true }));
    field.dispatchEvent(new Event("change", { bubbles: true }));
    return true;
  },
};
