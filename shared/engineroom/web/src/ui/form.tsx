import { render, type ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import "./form.css";

// A Field of a form. Its value travels as text, number or boolean, after its type.
export interface Field {
  name: string;
  label: string;
  type?: "text" | "number" | "password" | "textarea" | "select" | "check" | "date";
  value?: string | number | boolean;
  options?: { value: string; label: string }[];
  hint?: string;
  required?: boolean;
  mono?: boolean;
  // shown says whether the field matters, after what else is filled in.
  shown?: (values: Values) => boolean;
}

export type Values = Record<string, string | number | boolean>;

interface Form<R> {
  title: string;
  text?: ComponentChildren;
  fields: Field[];
  action: string;
  danger?: boolean;
  submit: (values: Values) => Promise<R>;
}

// form asks for values in a dialog and submits them. A refusal is shown in the dialog, which stays
// open. It returns what submit returns, or null when the person keeps everything as it is.
export function form<R>(f: Form<R>): Promise<R | null> {
  return new Promise((resolve) => {
    const place = document.createElement("div");
    document.body.append(place);
    const back = document.activeElement;
    const end = (result: R | null) => {
      render(null, place);
      place.remove();
      if (back instanceof HTMLElement) back.focus();
      resolve(result);
    };
    render(<FormDialog {...f} end={end} />, place);
  });
}

function reasons(err: unknown): string {
  return err instanceof SyntaxError ? `This is not JSON: ${err.message}` : err instanceof Error ? err.message : String(err);
}

function initial(fields: Field[]): Values {
  return Object.fromEntries(fields.map((f) => [f.name, f.value ?? (f.type === "check" ? false : "")]));
}

function FormDialog<R>({ title, text, fields, action, danger, submit, end }: Form<R> & { end: (r: R | null) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [values, setValues] = useState(() => initial(fields));
  const [wrong, setWrong] = useState("");
  const [busy, setBusy] = useState(false);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const put = (name: string, value: string | number | boolean) => setValues((v) => ({ ...v, [name]: value }));
  const send = async (e: Event) => {
    e.preventDefault();
    setBusy(true);
    setWrong("");
    try {
      const result = await submit(values);
      dialog.current?.close();
      end(result);
    } catch (err) {
      setWrong(reasons(err));
      setBusy(false);
    }
  };
  return (
    <dialog ref={dialog} class="form" aria-labelledby="form-title" onCancel={() => end(null)}>
      <form class="dlg" onSubmit={(e) => void send(e)}>
        <h2 id="form-title">{title}</h2>
        {text && <p>{text}</p>}
        {fields.filter((f) => f.shown?.(values) ?? true).map((f) => (
          <Input key={f.name} field={f} value={values[f.name]!} onChange={(v) => put(f.name, v)} />
        ))}
        {wrong && <p class="err" role="alert">{wrong}</p>}
        <div class="foot">
          <button class="btn" type="button" onClick={() => { dialog.current?.close(); end(null); }}>Cancel</button>
          <button class={danger ? "btn danger solid" : "btn primary"} disabled={busy}>{action}</button>
        </div>
      </form>
    </dialog>
  );
}

function Input({ field: f, value, onChange }: { field: Field; value: string | number | boolean; onChange: (v: string | number | boolean) => void }) {
  const id = "form-" + f.name;
  const common = { id, name: f.name, required: f.required, "aria-describedby": f.hint ? id + "-hint" : undefined };
  const text = (e: { currentTarget: { value: string } }) => onChange(e.currentTarget.value);
  const input = () => {
    switch (f.type) {
      case "check":
        return <input {...common} type="checkbox" checked={value === true} onChange={(e) => onChange(e.currentTarget.checked)} />;
      case "select":
        return (
          <select {...common} value={String(value)} onChange={text}>
            {f.options?.map((o) => <option key={o.value} value={o.value}>{o.label}</option>)}
          </select>
        );
      case "textarea":
        return <textarea {...common} rows={5} class={f.mono ? "mono" : ""} value={String(value)} onInput={text} spellcheck={!f.mono} />;
      case "number":
        return <input {...common} type="number" step="any" value={String(value)} onInput={(e) => onChange(e.currentTarget.value === "" ? "" : Number(e.currentTarget.value))} />;
      case "password":
        return <input {...common} type="password" value={String(value)} onInput={text} autocomplete="new-password" />;
      case "date":
        return <input {...common} type="date" value={String(value)} onInput={text} />;
      default:
        return <input {...common} type="text" class={f.mono ? "mono" : ""} value={String(value)} onInput={text} autocomplete="off" />;
    }
  };
  return (
    <div class={f.type === "check" ? "field check" : "field"}>
      {f.type === "check" ? <>{input()}<label for={id}>{f.label}</label></> : <><label for={id}>{f.label}</label>{input()}</>}
      {f.hint && <small id={id + "-hint"} class="muted">{f.hint}</small>}
    </div>
  );
}
