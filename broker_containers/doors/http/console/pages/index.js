// The pages, in the order of the menu. `needs` are rights of which one shows the page in the menu;
// `icon` is the path of a drawing of 16 by 16; `first` begins a group.

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
  { name: "overview", title: "Overview", view: Overview, icon: "M1.5 8.5h3l2-6 3 11 2-5h3" },
  { name: "topics", title: "Topics", view: TopicPages, icon: "M2 4h12M2 8h12M2 12h8" },
  { name: "attention", title: "Attention", view: Attention, icon: "M8 2l6.5 11.5h-13zM8 6.5v3.5M8 11.7v.3" },
  { name: "brokers", title: "Brokers", view: Brokers, first: true, icon: "M2 3h12v4H2zM2 9h12v4H2zM4.5 5h.1M4.5 11h.1", needs: ["brokers"] },
  { name: "balance", title: "Balance", view: Balance, icon: "M8 2v12M3 5h10M3 5l-2 5h4zM13 5l-2 5h4zM5 14h6", needs: ["cluster"] },
  { name: "storage", title: "Storage", view: Storage, icon: "M2.5 4c0-2.7 11-2.7 11 0v8c0 2.7-11 2.7-11 0zM2.5 4c0 2.7 11 2.7 11 0M2.5 8c0 2.7 11 2.7 11 0", needs: ["cluster"] },
  { name: "lake", title: "Lake", view: Lake, icon: "M1.5 5.5q2.2-2 4.3 0t4.4 0 4.3 0M1.5 10.5q2.2-2 4.3 0t4.4 0 4.3 0" },
  { name: "schemas", title: "Schemas", view: Schemas, first: true, icon: "M6 2C3.5 2 5 7 2.5 8 5 9 3.5 14 6 14M10 2c2.5 0 1 5 3.5 6-2.5 1-1 6-3.5 6" },
  { name: "security", title: "Security", view: Security, icon: "M8 1.5l5.5 2V8c0 3.5-2.5 5.5-5.5 6.5C5 13.5 2.5 11.5 2.5 8V3.5z", needs: ["cluster"] },
  { name: "settings", title: "Settings", view: Settings, icon: "M2 4h7M13 4h1M2 8h2M8 8h6M2 12h7M13 12h1M11 2.5v3M6 6.5v3M11 10.5v3", needs: ["cluster"] },
  { name: "operations", title: "Operations", view: Operations, icon: "M2 3h12v10H2zM4.5 6l2 2-2 2M8.5 10h3" },
];
