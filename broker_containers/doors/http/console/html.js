// Rendering: preact's components, written as tagged templates, and the hooks that pages use.

import { h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export const html = htm.bind(h);
export { render };
export {
  useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState,
} from "./vendor/hooks.js";
