import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** Asking is what a confirm dialog asks. */
export interface Asking {
  title: string; // names the thing
  effect?: ComponentChildren; // on it and on others
  action: string; // what the button says
  /** reason asks for one: true, or what stands above the field. It may stay empty where optional is set. */
  reason?: boolean | string;
  optional?: boolean;
  /** typed is the name that must be typed first. */
  typed?: string;
  /** calm is set where nothing is lost. */
  calm?: boolean;
  /** stay is what the first button says where nothing but the page is concerned, and nothing is recorded. */
  stay?: string;
  /** initial is what stands in the field at first. */
  initial?: string;
}

const asked = signal<(Asking & { answer: (a: { reason: string } | null) => void }) | null>(null);

/** confirm asks a person. It resolves to null when everything is to stay as it is. */
export function confirm(asking: Asking): Promise<{ reason: string } | null> {
  asked.peek()?.answer(null);
  return new Promise((answer) => {
    asked.value = { ...asking, answer };
  });
}

/** Confirming is where confirm dialogs appear. */
export function Confirming() {
  const now = asked.value;
  return now ? <Dialog key={now.title} {...now} /> : null;
}

function Dialog(a: NonNullable<typeof asked.value>) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [reason, setReason] = useState(a.initial ?? "");
  const [typed, setTyped] = useState("");
  useLayoutEffect(() => {
    const before = document.activeElement;
    dialog.current!.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const end = (yes: boolean): void => {
    dialog.current?.close();
    asked.value = null;
    a.answer(yes ? { reason: reason.trim() } : null);
  };
  const ready = (!a.reason || a.optional || reason.trim() !== "") && (!a.typed || typed === a.typed);
  return (
    <dialog ref={dialog} class="confirm" aria-labelledby="dlg-title" onCancel={(e) => { e.preventDefault(); end(false); }}
      onClick={(e) => { if (e.target === dialog.current) end(false); }}>
      <form class="dlg" onSubmit={(e) => { e.preventDefault(); if (ready) end(true); }}>
        <h2 id="dlg-title">{a.title}</h2>
        {a.effect && <div class="effect">{a.effect}</div>}
        {a.reason && (
          <label>{a.reason === true ? "Reason" : a.reason}{a.optional && <span class="muted"> (optional)</span>}
            <input type="text" value={reason} maxLength={500} autoFocus onInput={(e) => setReason(e.currentTarget.value)} />
          </label>
        )}
        {a.typed && (
          <label>Type <b>{a.typed}</b> to go on
            <input type="text" value={typed} autocomplete="off" onInput={(e) => setTyped(e.currentTarget.value)} />
          </label>
        )}
        {!a.stay && <p class="by">Recorded under your name.</p>}
        <div class="foot">
          <button type="button" class="btn" autoFocus={!a.reason} onClick={() => end(false)}>{a.stay ?? "Keep as it is"}</button>
          <button type="submit" class={"btn " + (a.calm ? "primary" : "danger solid")} disabled={!ready}>{a.action}</button>
        </div>
      </form>
    </dialog>
  );
}
