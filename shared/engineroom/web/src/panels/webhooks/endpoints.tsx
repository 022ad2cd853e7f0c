import { api, can, confirm, Empty, fmt, href, type Page, More, Outputs, Panel, Said, Shown, Tag, toast } from "../../ui";
import { useWhole } from "../../app/whole";
import { form } from "../../ui/form";
import { showOnce } from "../../ui/once";
import { type Endpoint, events, host } from "./webhook";

const fail = (e: unknown) => toast(e instanceof Error ? e.message : String(e));

/** Endpoints lists the URLs that are told of events. */
export function Endpoints() {
  const endpoints = useWhole<Page<Endpoint>>("/webhook-endpoints", {}, { every: 60_000 });
  const done = (p: Promise<unknown>) => void p.catch(fail).then(() => endpoints.reload());
  const may = can("create-webhook-endpoint");
  return (
    <Panel title="Endpoints" note="who is told of events" aside={<><Outputs small path="/webhook-endpoints" />{may && <button class="btn primary" onClick={() => done(create())}>New endpoint</button>}</>}>
      <Shown of={endpoints} what="The endpoints">
        {({ items }) => !items.length
          ? <Empty title="No endpoint yet" command={`bin/lanekeeper webhook-endpoints create '{"url":"https://example.com/lanekeeper","events":["task.status_changed"]}'`}>An endpoint is a URL that is told of events, such as a task that failed. Each request is signed, and sent again until it is taken.</Empty>
          : <div class="scroll"><table class="tbl" aria-label="Endpoints of webhooks">
              <thead><tr><th>Endpoint</th><th>Status</th><th class="hide-p">Events</th><th class="r hide-p">Failed</th>{may && <th><span class="sr">Actions</span></th>}</tr></thead>
              <tbody>{items.map((e) => (
                <tr key={e.id}>
                  <td><a class="lnk strong trunc block" title={e.url} href={href("webhooks", { direction: "outbound", endpointId: e.id })}>{host(e.url)}</a>{e.description && <small class="muted trunc block">{e.description}</small>}</td>
                  <td>{e.enabled ? e.failures ? <Said tone="warn">Failing</Said> : <Said tone="done">Enabled</Said> : <Said tone={e.disabledReason ? "failed" : "quiet"}>{e.disabledReason ? `Disabled: ${e.disabledReason}` : "Disabled"}</Said>}</td>
                  <td class="hide-p"><span class="row wrap">{e.events.slice(0, 3).map((v) => <Tag key={v}>{v === "*" ? "all" : v}</Tag>)}{e.events.length > 3 && <Tag>+{e.events.length - 3}</Tag>}</span></td>
                  <td class="r hide-p">{e.failures ? fmt.count(e.failures) : <span class="muted">–</span>}</td>
                  {may && <td class="r"><span class="acts">
                    <button class="btn sm" aria-label={`Test ${host(e.url)}`} onClick={() => done(test(e))}>Test</button>
                    <button class="btn sm" aria-label={`New secret for ${host(e.url)}`} onClick={() => done(rotate(e))}>New secret</button>
                    <button class="btn sm" aria-label={`${e.enabled ? "Disable" : "Enable"} ${host(e.url)}`} onClick={() => done(turn(e))}>{e.enabled ? "Disable" : "Enable"}</button>
                    <button class="btn sm danger" aria-label={`Delete ${host(e.url)}`} onClick={() => done(remove(e))}>Delete</button>
                  </span></td>}
                </tr>))}
              </tbody>
            </table></div>}
      </Shown>
      <More of={endpoints} what="endpoints" />
    </Panel>
  );
}

async function create() {
  const made = await form<Endpoint & { secret?: string }>({
    title: "New endpoint",
    text: "It is told of events by POST requests that are signed as Standard Webhooks.",
    fields: [
      { name: "url", label: "URL", required: true },
      { name: "all", label: "Every event", type: "check", value: true },
      ...events.map((name) => ({ name, label: name, type: "check" as const, shown: (v: Record<string, unknown>) => v.all !== true })),
      { name: "description", label: "Description" },
      { name: "ownershipChallenge", label: "The URL must prove first that it expects this", type: "check", hint: "A challenge is sent; nothing else is, until it is answered." },
    ],
    action: "Create endpoint",
    submit: (v) => api.post("/webhook-endpoints", {
      url: v.url, events: v.all ? ["*"] : events.filter((name) => v[name] === true), ...(v.description ? { description: v.description } : {}), ownershipChallenge: v.ownershipChallenge,
    }),
  });
  if (made?.secret) await showOnce("The endpoint's secret", "The receiver verifies our requests with it. It is shown this once.", made.secret);
}

async function test(e: Endpoint) {
  const got = await api.post<{ status?: string; statusCode?: number | null; error?: string | null }>(`/webhook-endpoints/${e.id}/test`, {});
  toast(got?.status === "failed" || got?.error ? `${host(e.url)} did not take it: ${got.error ?? got.statusCode}` : `${host(e.url)} took it${got?.statusCode ? ` (${got.statusCode})` : ""}`);
}

async function rotate(e: Endpoint) {
  const yes = await confirm({ title: `Give ${host(e.url)} a new secret?`, effect: "Requests are signed with both for 24 hours. Give the new one to the receiver within that time.", action: "Make a new secret", calm: true });
  if (!yes) return;
  const got = await api.post<{ secret?: string }>(`/webhook-endpoints/${e.id}/rotate-secret`, {});
  if (got.secret) await showOnce("The endpoint's new secret", "It is shown this once. The one before is valid for 24 hours more.", got.secret);
}

async function turn(e: Endpoint) {
  await api.patch(`/webhook-endpoints/${e.id}`, { enabled: !e.enabled });
  toast(`${host(e.url)} is ${e.enabled ? "disabled" : "enabled"}`);
}

async function remove(e: Endpoint) {
  const yes = await confirm({ title: `Delete the endpoint ${host(e.url)}?`, effect: "It is told of nothing any more, and what waits for it is dropped.", action: "Delete" });
  if (!yes) return;
  await api.delete(`/webhook-endpoints/${e.id}`);
  toast("The endpoint is deleted");
}
