import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../app/api";
import "./fields.css";

/** Field is one field of a form. */
export interface Field {
  name: string;
  label: string;
  kind?: "text" | "area" | "number" | "select" | "json" | "tags" | "check";
  value?: unknown;
  required?: boolean;
  hint?: string;
  options?: readonly (readonly [value: string, label: string])[]; // of a select
  suggestions?: readonly string[]; // of a text
  min?: number;
  max?: number;
  rows?: number; // of an area
  maxLength?: number;
  more?: boolean; // it stands behind "More"
  at?: string; // where a refusal names it: "body.title" unless given
}

export type Values = Record<string, unknown>;

/** shown is a field's value as text in its control. */
function shown(f: Field): string {
  if (f.value === undefined || f.value === null) return "";
  if (f.kind === "tags") return (f.value as string[]).join(", ");
  if (f.kind === "json") return JSON.stringify(f.value, null, 2);
  return String(f.value);
}

// read is the value that a text stands for; an empty one is undefined.
function read(f: Field, text: string): unknown {
  if (f.kind === "check") return text === "true";
  if (f.kind === "tags") return text.split(",").map((t) => t.trim()).filter(Boolean);
  const trimmed = text.trim();
  if (trimmed === "") {
    if (f.required) throw new Error("This is needed.");
    return undefined;
  }
  if (f.kind === "number") {
    const n = Number(trimmed);
    if (!Number.isFinite(n)) throw new Error("Write a number.");
    if (f.min !== undefined && n < f.min) throw new Error(`Write at least ${f.min}.`);
    if (f.max !== undefined && n > f.max) throw new Error(`Write at most ${f.max}.`);
    return n;
  }
  if (f.kind === "json") {
    try {
      return JSON.parse(trimmed);
    } catch {
      throw new Error("This is not JSON.");
    }
  }
  return f.kind === "area" ? text : trimmed;
}

/** refusals sorts what a refusal says by field; "" holds what belongs to none. */
function refusals(error: unknown, fields: readonly Field[]): Record<string, string> {
  if (!(error instanceof Problem)) return { "": String(error) };
  const found = (error.body.errors ?? []) as { location: string; message: string }[];
  const out: Record<string, string> = {};
  for (const e of found) {
    const field = fields.find((f) => {
      const at = f.at ?? "body." + f.name;
      return e.location === at || e.location.startsWith(at + ".") || e.location.startsWith(at + "[");
    });
    const name = field?.name ?? "";
    const text = field ? e.message : `${e.location.replace(/^body\./, "")}: ${e.message}`;
    out[name] = out[name] ? `${out[name]}; ${text}` : text;
  }
  if (!found.length) out[""] = error.detail || error.title;
  return out;
}

/** FieldsDialog is a dialog that asks for values and submits them. It stays open while a submission is refused. */
export function FieldsDialog(props: {
  title: string;
  lead?: ComponentChildren;
  fields: readonly Field[];
  action: string;
  danger?: boolean;
  submit: (values: Values) => Promise<unknown>;
  onClose: () => void;
}) {
  const { fields } = props;
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  const [texts, setTexts] = useState(() => Object.fromEntries(fields.map((f) => [f.name, shown(f)])));
  const [wrong, setWrong] = useState<Record<string, string>>({});
  const [busy, setBusy] = useState(false);
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    const d = dialog.current!;
    d.showModal();
    d.querySelector<HTMLElement>("input,textarea,select")?.focus();
    return () => before?.focus?.();
  }, []);

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    const values: Values = {};
    const bad: Record<string, string> = {};
    for (const f of fields) {
      try {
        values[f.name] = read(f, texts[f.name] ?? "");
      } catch (e) {
        bad[f.name] = (e as Error).message;
      }
    }
    if (!Object.keys(bad).length) {
      setBusy(true);
      try {
        await props.submit(values);
        props.onClose();
        return;
      } catch (e) {
        Object.assign(bad, refusals(e, fields));
      }
      setBusy(false);
    }
    setWrong(bad);
    const first = fields.find((f) => bad[f.name]);
    requestAnimationFrame(() => document.getElementById(`${id}-${first?.name}`)?.focus());
  };

  const control = (f: Field) => {
    const common = {
      id: `${id}-${f.name}`,
      name: f.name,
      "aria-invalid": !!wrong[f.name],
      "aria-describedby": wrong[f.name] || f.hint ? `${id}-${f.name}-hint` : undefined,
      onInput: (e: Event) => setTexts({ ...texts, [f.name]: (e.target as HTMLInputElement).value }),
    };
    const text = texts[f.name];
    const input = () => {
      switch (f.kind) {
        case "area":
        case "json":
          return <textarea {...common} class={f.kind === "json" ? "mono" : undefined} rows={f.rows ?? 4} maxLength={f.maxLength} value={text} spellcheck={f.kind === "area"} />;
        case "select":
          return (
            <select {...common} value={text}>
              {f.options!.map(([value, label]) => <option key={value} value={value}>{label}</option>)}
            </select>
          );
        case "check":
          return <input {...common} type="checkbox" checked={text === "true"}
            onInput={(e) => setTexts({ ...texts, [f.name]: String((e.target as HTMLInputElement).checked) })} />;
        default:
          return (
            <>
              <input {...common} type="text" inputMode={f.kind === "number" ? "numeric" : undefined} maxLength={f.maxLength} value={text}
                list={f.suggestions && `${id}-${f.name}-list`} autocomplete="off" />
              {f.suggestions && <datalist id={`${id}-${f.name}-list`}>{f.suggestions.map((s) => <option key={s} value={s} />)}</datalist>}
            </>
          );
      }
    };
    return (
      <div class={"field" + (f.kind === "check" ? " check" : "")} key={f.name}>
        <label for={common.id}>{f.label}{f.required || f.kind === "check" || f.kind === "select" ? "" : <small> optional</small>}</label>
        {input()}
        {(wrong[f.name] || f.hint) && <small id={`${id}-${f.name}-hint`} class={wrong[f.name] ? "err" : "muted"}>{wrong[f.name] || f.hint}</small>}
      </div>
    );
  };
  const more = fields.filter((f) => f.more);
  return (
    <dialog ref={dialog} class="fields" aria-labelledby={id + "-title"} onClose={props.onClose}
      onCancel={(e) => { if (busy) e.preventDefault(); }}>
      <form class="dlg" onSubmit={submit} noValidate>
        <h2 id={id + "-title"}>{props.title}</h2>
        {props.lead && <p>{props.lead}</p>}
        {fields.filter((f) => !f.more).map(control)}
        {more.length > 0 && <details open={more.some((f) => wrong[f.name])}><summary>More</summary>{more.map(control)}</details>}
        {wrong[""] && <p class="err" role="alert">{wrong[""]}</p>}
        <div class="foot">
          <button type="button" class="btn" onClick={() => dialog.current?.close()}>Cancel</button>
          <button type="submit" class={"btn " + (props.danger ? "danger solid" : "primary")} disabled={busy} aria-busy={busy}>{props.action}</button>
        </div>
      </form>
    </dialog>
  );
}
