import { signal } from "@preact/signals";

interface Toast {
  id: number;
  text: string;
  act?: { label: string; run: () => void };
  stays?: boolean;
}

const toasts = signal<Toast[]>([]);
let next = 0;

/** toast says for 5 s what was done. undo is given only where the API can undo it. */
export function toast(text: string, undo?: () => void): void {
  const id = ++next;
  const some = toasts.value.filter((t) => !t.stays).slice(-2);
  toasts.value = [...toasts.value.filter((t) => t.stays || some.includes(t)), { id, text, act: undo && { label: "Undo", run: undo } }];
  setTimeout(() => dismiss(id), 5000);
}

/** notice says something until a person takes it away, or the function that it returns is called. */
export function notice(text: string, act?: Toast["act"]): () => void {
  const id = ++next;
  toasts.value = [...toasts.value, { id, text, act, stays: true }];
  return () => dismiss(id);
}

const dismiss = (id: number): void => {
  toasts.value = toasts.value.filter((t) => t.id !== id);
};

/** Toasts is where they appear. */
export const Toasts = () => (
  <div class="toasts" role="status" aria-live="polite">
    {toasts.value.map((t) => (
      <div class="toast enter" key={t.id}>
        {t.text}
        {t.act && <button type="button" onClick={() => { dismiss(t.id); t.act!.run(); }}>{t.act.label}</button>}
        {t.stays && <button type="button" onClick={() => dismiss(t.id)}>Dismiss</button>}
      </div>
    ))}
  </div>
);
