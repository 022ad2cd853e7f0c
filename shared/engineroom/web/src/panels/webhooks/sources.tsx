import { api, can, confirm, Copy, Empty, fmt, href, type Page, More, Outputs, Panel, Said, Shown, Tag, toast } from "../../ui";
import { base } from "../../app/base";
import { useWhole } from "../../app/whole";
import { form } from "../../ui/form";
import { showOnce } from "../../ui/once";
import type { Source } from "./webhook";

const address = (s: Source) => location.origin + base + s.path.replace(/^\//, "");
const fail = (e: unknown) => toast(e instanceof Error ? e.message : String(e));

/** Sources lists who may send webhooks, and what theirs do. */
export function Sources() {
  const sources = useWhole<Page<Source>>("/webhook-sources", {}, { every: 60_000 });
  const done = (p: Promise<unknown>) => void p.catch(fail).then(() => sources.reload());
  const add = can("create-webhook-source") && <button class="btn primary" onClick={() => done(create())}>New source</button>;
  return (
    <Panel title="Sources" note="who may send webhooks" aside={<><Outputs small path="/webhook-sources" />{add}</>}>
      <Shown of={sources} what="The sources">
        {({ items }) => !items.length
          ? <Empty title="No source yet" command={`bin/lanekeeper webhook-sources create '{"name":"orders","kind":"token","rules":[{"event":"*","then":{"skill":"save_memory","with":{"category":"orders","content":"{{body.id}}"}}}]}'`}>A source is somebody who may send webhooks, such as GitHub or Stripe. Its rules say what a webhook does.</Empty>
          : <div class="scroll"><table class="tbl" aria-label="Sources of webhooks">
              <thead><tr><th>Source</th><th>Status</th><th class="hide-p">Kind</th><th class="hide-p">Address</th><th class="r hide-p">Rules</th><th class="r">Refused</th><th><span class="sr">Actions</span></th></tr></thead>
              <tbody>{items.map((s) => (
                <tr key={s.id}>
                  <td class="strong"><a class="lnk" href={href("webhooks", { sourceId: s.id })}>{s.name}</a></td>
                  <td>{s.enabled ? <Said tone="done">Enabled</Said> : <Said tone="quiet">Disabled</Said>}</td>
                  <td class="hide-p"><Tag>{s.kind}</Tag></td>
                  <td class="hide-p"><span class="row"><code class="trunc">{s.path}</code><Copy small text={() => address(s)} /></span></td>
                  <td class="r hide-p">{fmt.count(Array.isArray(s.rules) ? s.rules.length : 0)}</td>
                  <td class="r">{s.rejected ? <span class="st warn" title={`wrong signatures, the last ${fmt.time(s.rejectedAt)}`}>{fmt.count(s.rejected)}</span> : <span class="muted">–</span>}</td>
                  <td class="r"><span class="acts">
                    {can("rotate-webhook-secret") && <button class="btn sm" aria-label={`New secret for ${s.name}`} onClick={() => done(rotate(s))}>New secret</button>}
                    {can("patch-webhook-source") && <button class={s.enabled ? "btn sm danger" : "btn sm"} aria-label={`${s.enabled ? "Disable" : "Enable"} ${s.name}`} onClick={() => done(turn(s))}>{s.enabled ? "Disable" : "Enable"}</button>}
                  </span></td>
                </tr>))}
              </tbody>
            </table></div>}
      </Shown>
      <More of={sources} what="sources" />
    </Panel>
  );
}

async function create() {
  const made = await form<Source & { secret?: string }>({
    title: "New source",
    text: "What its rules ask for is done for each webhook; a webhook that no rule matches is only kept.",
    fields: [
      { name: "name", label: "Name", required: true, hint: "Part of its address: lower-case letters, digits, - and _" },
      { name: "kind", label: "Who signs", type: "select", value: "github", options: [["github", "GitHub"], ["stripe", "Stripe"], ["slack", "Slack"], ["standard", "Standard Webhooks"], ["hmac", "HMAC of the body"], ["token", "A token in a header"]].map(([value, label]) => ({ value: value!, label: label! })) },
      { name: "secret", label: "Secret", type: "password", hint: "Left empty, one is made. Stripe and Slack make theirs." },
      { name: "rules", label: "Rules, as JSON", type: "textarea", mono: true, value: "[]", hint: "The first that matches counts." },
    ],
    action: "Create source",
    submit: (v) => api.post("/webhook-sources", { name: v.name, kind: v.kind, ...(v.secret ? { secret: v.secret } : {}), rules: JSON.parse(String(v.rules) || "[]") }),
  });
  if (made?.secret) await showOnce(`The secret of ${made.name}`, `Give it to the sender, with the address ${address(made)}. It is shown this once.`, made.secret);
}

async function rotate(s: Source) {
  const yes = await confirm({ title: `Give ${s.name} a new secret?`, effect: "The one before is valid for 24 hours more. Give the new one to the sender within that time.", action: "Make a new secret", calm: true });
  if (!yes) return;
  const got = await api.post<{ secret?: string }>(`/webhook-sources/${s.id}/rotate-secret`, {});
  if (got.secret) await showOnce(`The new secret of ${s.name}`, "It is shown this once. The one before is valid for 24 hours more.", got.secret);
}

async function turn(s: Source) {
  if (s.enabled && !(await confirm({ title: `Disable source ${s.name}?`, effect: "What it sends is refused, and what it sent and is not done yet is parked.", action: "Disable" }))) return;
  await api.patch(`/webhook-sources/${s.id}`, { enabled: !s.enabled });
  toast(`${s.name} is ${s.enabled ? "disabled" : "enabled"}`);
}
