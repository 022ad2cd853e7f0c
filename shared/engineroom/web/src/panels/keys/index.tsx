import { Ago, api, can, confirm, Empty, fmt, type Page, More, Outputs, PageHead, Panel, Said, serverNow, Shown, Tag, Time, toast } from "../../ui";
import { useWhole } from "../../app/whole";
import { form } from "../../ui/form";
import { showOnce } from "../../ui/once";
import "./keys.css";
import type { KeyItem } from "../../app/api.gen";

type Key = KeyItem;

const fail = (e: unknown) => toast(e instanceof Error ? e.message : String(e));
const list = (v: unknown) => String(v).split(/[\s,]+/).filter(Boolean);

// Keys shows the keys of programs, and those that stand in the pages of sites.
export default function Keys() {
  const api = useWhole<Page<Key>>("/api-keys", {}, { every: 60_000 });
  const site = useWhole<Page<Key>>("/site-keys", {}, { every: 60_000 });
  const done = (p: Promise<unknown>) => void p.catch(fail).then(() => { api.reload(); site.reload(); });
  return (
    <div class="page grid">
      <PageHead title="Keys">Programs use API keys. A site key stands in a site's pages and lets visitors chat, nothing else.</PageHead>
      <Panel title="API keys" note={api.data && fmt.count(api.data.items.filter((k) => k.kind !== "site").length) + (api.more ? "+" : "")}
        aside={<><Outputs path="/api-keys" />{can("create-api-key") && <button class="btn primary" onClick={() => done(createKey())}>New API key</button>}</>}>
        <Shown of={api} what="The keys">
          {({ items }) => <Table keys={items.filter((k) => k.kind !== "site")} site={false} may={can("revoke-api-key")} done={done} />}
        </Shown>
        <More of={api} what="keys" />
      </Panel>
      <Panel title="Site keys" note={site.data && fmt.count(site.data.items.length) + (site.more ? "+" : "")}
        aside={<><Outputs path="/site-keys" />{can("create-site-key") && <button class="btn" onClick={() => done(createSite())}>New site key</button>}</>}>
        <Shown of={site} what="The site keys">{({ items }) => <Table keys={items} site may={can("revoke-site-key")} done={done} />}</Shown>
        <More of={site} what="site keys" />
      </Panel>
    </div>
  );
}

function Table({ keys, site, may, done }: { keys: Key[]; site: boolean; may: boolean; done: (p: Promise<unknown>) => void }) {
  if (!keys.length) return site ? <Empty title="No site key yet" command={`bin/lanekeeper site-keys create '{"name":"shop","origins":["https://shop.example"]}'`}>A site key lets the chat of a web page talk with the agent. It is bound to the page's origin.</Empty> : <Empty title="No key yet" command={`bin/lanekeeper api-keys create '{"name":"ci","role":"MEMBER","scopes":["*:read"]}'`}>A key lets a program use the API under your name, as far as its role and scopes allow.</Empty>;
  return (
    <div class="scroll"><table class="tbl" aria-label={site ? "Site keys" : "API keys"}>
      <thead><tr><th>Key</th><th>Status</th><th class="hide-p">{site ? "Pages" : "May"}</th><th class="r hide-p">Created</th><th class="r">Last used</th>{may && <th><span class="sr">Actions</span></th>}</tr></thead>
      <tbody>{keys.map((k) => (
        <tr key={k.id}>
          <td><b>{k.name}</b> <span class="mono muted">{k.prefix}…</span></td>
          <td>{k.revokedAt ? <Said tone="quiet">Revoked</Said> : k.expiresAt && Date.parse(k.expiresAt) < serverNow() ? <Said tone="warn">Expired</Said> : <Said tone="done">Valid</Said>}</td>
          <td class="hide-p"><span class="row">{site ? <>{(k.origins ?? []).slice(0, 2).map((o) => <Tag key={o}>{o}</Tag>)}{!k.origins?.length && <span class="muted">any page</span>}</> : <>{k.role && <Tag>{k.role}</Tag>}{(k.scopes ?? []).slice(0, 3).map((s) => <Tag key={s}>{s}</Tag>)}</>}</span></td>
          <td class="r hide-p" title={`by ${k.createdBy}`}><Time at={k.createdAt} /></td>
          <td class="r muted">{k.lastUsedAt ? <Ago at={k.lastUsedAt} /> : "never"}</td>
          {may && <td class="r"><span class="acts">{!k.revokedAt && <button class="btn sm danger" aria-label={`Revoke ${k.name}`} onClick={() => done(revoke(k, site))}>Revoke</button>}</span></td>}
        </tr>))}
      </tbody>
    </table></div>
  );
}

async function createKey() {
  const made = await form<Key & { key: string }>({
    title: "New API key",
    text: "The key acts under your name. It is shown once.",
    fields: [
      { name: "name", label: "Name", required: true, hint: "What it is for, such as “deploy script”" },
      { name: "role", label: "Role", type: "select", value: "MEMBER", options: ["MEMBER", "ADMIN", "OWNER"].map((r) => ({ value: r, label: r })) },
      { name: "scopes", label: "Scopes", value: "*", mono: true, hint: "Such as agent-tasks:read, skills:write or *" },
      { name: "expires", label: "Valid until", type: "date" },
    ],
    action: "Create key",
    submit: (v) => api.post("/api-keys", { name: v.name, role: v.role, scopes: list(v.scopes), ...(v.expires ? { expiresAt: new Date(`${String(v.expires)}T23:59:59Z`).toISOString() } : {}) }),
  });
  if (made) await showOnce(`The key “${made.name}”`, "It is shown this once. Keep it where your programs read their secrets.", made.key);
}

async function createSite() {
  const made = await form<Key & { key: string }>({
    title: "New site key",
    text: "It stands in a site's pages, where everyone can read it: it may chat, and nothing else.",
    fields: [
      { name: "name", label: "Name", required: true },
      { name: "origins", label: "Origins of the pages", hint: "Such as https://example.com. Left empty, any page may use it.", mono: true },
      { name: "persona", label: "Persona", value: "visitor_chat", mono: true },
    ],
    action: "Create site key",
    submit: (v) => api.post("/site-keys", { name: v.name, origins: list(v.origins), persona: v.persona }),
  });
  if (made) await showOnce(`The site key “${made.name}”`, "Put it into the chat's script tag.", made.key);
}

async function revoke(k: Key, site: boolean) {
  if (!(await confirm({ title: `Revoke ${k.name}?`, effect: site ? "Pages that use it can't chat any more, at once." : "What uses it is refused at once. It can't be made valid again.", action: "Revoke" }))) return;
  await api.delete(`/${site ? "site" : "api"}-keys/${k.id}`);
  toast(`${k.name} is revoked`);
}
