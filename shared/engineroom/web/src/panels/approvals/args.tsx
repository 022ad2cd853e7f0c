import { Json } from "../../ui";
import { controlOf, written, type Schema } from "./schema";
import type { Input } from "./types";

/** Value shows one argument exactly as it is bound. */
export function Value({ name, value, input }: { name: string; value: unknown; input: Input }) {
  if (typeof value === "string") return value === "" ? <span class="muted">empty text</span> : <span class="exact">{value}</span>;
  if (typeof value === "number") {
    const cents = /cents$/i.test(name) && Number.isInteger(value) && money(value, input.currency);
    return <><span class="num">{String(value)}</span>{cents && <span class="muted"> = {cents}</span>}</>;
  }
  if (value === null || typeof value === "boolean") return <code>{String(value)}</code>;
  return <Json value={value} />;
}

function money(cents: number, currency: unknown): string {
  const amount = (cents / 100).toFixed(2);
  if (typeof currency !== "string") return amount;
  try {
    return new Intl.NumberFormat("en-US", { style: "currency", currency }).format(cents / 100);
  } catch {
    return `${amount} ${currency}`;
  }
}

/** Arguments shows what a call is made with. Where they were edited, the old value stands before the new one. */
export function Arguments({ input, before }: { input: Input; before?: Input | null }) {
  const names = Object.keys({ ...before, ...input });
  if (!names.length) return <p class="args-none muted">The call has no arguments.</p>;
  return (
    <dl class="args">
      {names.map((name) => {
        const old = before?.[name], now = input[name];
        const changed = before && JSON.stringify(old) !== JSON.stringify(now);
        return (
          <div key={name} class={changed ? "changed" : undefined}>
            <dt>{name}</dt>
            <dd>
              {changed && <Change old={old} now={now} name={name} input={input} />}
              {!changed && <Value name={name} value={now} input={input} />}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

/** Change shows an edit: old → new. */
export const Change = ({ old, now, name, input }: { old: unknown; now: unknown; name: string; input: Input }) => (
  <span class="change">
    <span class="sr">was </span>{old === undefined ? <span class="muted">not given</span> : <del><Value name={name} value={old} input={input} /></del>}
    <span aria-hidden="true"> → </span><span class="sr">, becomes </span>
    {now === undefined ? <span class="muted">not given</span> : <ins><Value name={name} value={now} input={input} /></ins>}
  </span>
);

/** Draft is what a person has written so far, by argument. */
export type Draft = Record<string, string>;

/** Editor edits the arguments of a call by its skill's schema, and shows each change as old → new. */
export function Editor({ input, schema, draft, set, values, wrong }: {
  input: Input; schema: Schema | undefined; draft: Draft; set: (d: Draft) => void; values: Input; wrong: Record<string, string>;
}) {
  const names = Object.keys({ ...input, ...schema?.properties });
  return (
    <div class="args" role="group" aria-label="Arguments">
      {names.map((name) => {
        const of = schema?.properties?.[name];
        const control = controlOf(of, input[name]);
        const id = "arg-" + name;
        const text = draft[name] ?? written(control, input[name]);
        const change = (value: string) => set({ ...draft, [name]: value });
        const common = { id, "aria-invalid": !!wrong[name], "aria-describedby": id + "-note" };
        const edited = JSON.stringify(values[name]) !== JSON.stringify(input[name]);
        return (
          <div key={name} class={edited ? "changed" : undefined}>
            <label class="name" for={id}>{name}</label>
            <div class="value">
              {control === "boolean" || control === "choice" ? (
                <select {...common} value={text} onChange={(e) => change(e.currentTarget.value)}>
                  {input[name] === undefined && <option value="">not given</option>}
                  {(control === "boolean" ? ["true", "false"] : of!.enum!.map((v) => written("choice", v))).map((v) => <option key={v} value={v}>{v}</option>)}
                </select>
              ) : control === "long" || control === "json" ? (
                <textarea {...common} class={control === "json" ? "mono" : undefined} rows={Math.min(10, Math.max(3, text.split("\n").length))} value={text}
                  spellcheck={control === "long"} onInput={(e) => change(e.currentTarget.value)} />
              ) : (
                <input {...common} type="text" inputMode={control === "number" ? "decimal" : undefined} value={text} autocomplete="off" onInput={(e) => change(e.currentTarget.value)} />
              )}
              <span class="note" id={id + "-note"}>
                {wrong[name] && <span class="err" role="alert">{wrong[name]}</span>}
                {!wrong[name] && edited && <Change old={input[name]} now={values[name]} name={name} input={values} />}
                {!wrong[name] && !edited && of?.description && <span class="muted">{of.description}</span>}
              </span>
            </div>
          </div>
        );
      })}
    </div>
  );
}
