import { useLayoutEffect, useRef } from "preact/hooks";

type Keys = Record<string, (event: KeyboardEvent) => void>;
const layers: { current: Keys }[] = [];

/** single reports whether single keys are on; a person may switch them off. */
export const single = {
  get on(): boolean {
    try {
      return localStorage.getItem("lk-keys") !== "off";
    } catch {
      return true;
    }
  },
  set(on: boolean): void {
    try {
      localStorage.setItem("lk-keys", on ? "on" : "off");
    } catch {
      // they stay on
    }
  },
};

/**
 * useKeys handles single keys while the component is on display: {j: next, Enter: open, "?": help}.
 * Names of letters are in lower case. They are off while a field has the focus or a dialog is open. The
 * component that came last is asked first.
 */
export function useKeys(keys: Keys): void {
  const layer = useRef(keys);
  layer.current = keys;
  useLayoutEffect(() => { // what is on display has its keys
    layers.push(layer);
    return () => {
      layers.splice(layers.indexOf(layer), 1);
    };
  }, []);
}

const typing = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable);

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || typing(event.target) || document.querySelector("dialog[open]")) return;
  if (event.key.length === 1 && !single.on) return;
  if (event.key === "Enter" && (event.target as Element).closest?.("a,button,summary")) return; // it has a meaning of its own
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  for (const layer of [...layers].reverse()) {
    const act = layer.current[name];
    if (act) {
      event.preventDefault();
      act(event);
      return;
    }
  }
});
