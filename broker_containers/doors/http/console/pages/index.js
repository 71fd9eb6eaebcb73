// The pages, in the order of the menu. `needs` are rights of which one shows the page in the menu.

import { Attention } from "./attention.js";
import { Overview } from "./overview.js";

const CLUSTER = [["cluster"]];

export const PAGES = [
  { name: "overview", title: "Overview", view: Overview },
  { name: "attention", title: "Attention", view: Attention },
];
