import { signal } from "@preact/signals";

interface Toast {
  id: number;
  text: string;
  undo?: () => void;
}

const toasts = signal<Toast[]>([]);
let next = 0;

/** toast says for 5 s what was done. undo is given only where the API can undo it. */
export function toast(text: string, undo?: () => void): void {
  const id = ++next;
  toasts.value = [...toasts.value.slice(-2), { id, text, undo }];
  setTimeout(() => dismiss(id), 5000);
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
        {t.undo && <button type="button" onClick={() => { dismiss(t.id); t.undo!(); }}>Undo</button>}
      </div>
    ))}
  </div>
);
