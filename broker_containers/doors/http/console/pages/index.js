// The pages, in the order of the menu. `needs` are rights of which one shows the page in the menu.

import { Attention } from "./attention.js";
import { Balance } from "./balance.js";
import { Brokers } from "./brokers.js";
import { Lake } from "./lake.js";
import { Operations } from "./operations.js";
import { Overview } from "./overview.js";
import { Schemas } from "./schemas.js";
import { Security } from "./security.js";
import { Settings } from "./settings.js";
import { Storage } from "./storage.js";
import { TopicPages } from "./topic.js";

export const PAGES = [
  { name: "overview", title: "Overview", view: Overview },
  { name: "topics", title: "Topics", view: TopicPages },
  { name: "attention", title: "Attention", view: Attention },
  { name: "brokers", title: "Brokers", view: Brokers, needs: ["brokers"] },
  { name: "balance", title: "Balance", view: Balance, needs: ["cluster"] },
  { name: "storage", title: "Storage", view: Storage, needs: ["cluster"] },
  { name: "lake", title: "Lake", view: Lake, needs: ["cluster"] },
  { name: "schemas", title: "Schemas", view: Schemas },
  { name: "security", title: "Security", view: Security, needs: ["cluster"] },
  { name: "settings", title: "Settings", view: Settings, needs: ["cluster"] },
  { name: "operations", title: "Operations", view: Operations },
];
