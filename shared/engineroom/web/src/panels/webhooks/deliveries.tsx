import { usePages } from "../../app/pages";
import { api, can, Choose, Code, Copy, curl, Empty, Facts, Failed, Filtered, Filters, fmt, go, href, List, Loading, Outputs, type Page, Pane, Panel, Seg, setQuery, Shown, Status, Tag, Time, toast, TraceLink, useQuery, useResource } from "../../ui";
import { at, type Delivery, type Endpoint, host, next } from "./webhook";

const statuses = {
  inbound: [["received", "Received"], ["working", "Working"], ["done", "Done"], ["failed", "Retrying"], ["parked", "Parked"]],
  outbound: [["delivered", "Delivered"], ["failed", "Failed"]],
} as const;

// A failed attempt to send is red; a webhook that came and failed is tried again.
const Delivered = ({ of: d }: { of: Delivery }) => (
  <Status kind="delivery" value={d.direction === "outbound" && d.status === "failed" && !next(d) ? "dead" : d.status} word={d.direction === "outbound" && d.status === "failed" && !next(d) ? "Failed" : undefined} />
);

// didOf is what a webhook that came set off; null: it went out, or is not that far.
const didOf = (d: Delivery): string | null => d.action || (d.direction !== "outbound" && d.status === "done" ? "nothing: no rule fits" : null);

/** Deliveries lists what came in or went out; one of them opens beside the list. */
export function Deliveries({ id }: { id?: string }) {
  const [query] = useQuery();
  const direction = query.get("direction") === "outbound" ? "outbound" : "inbound";
  const out = direction === "outbound";
  const params = { direction, status: query.get("status"), [out ? "endpointId" : "sourceId"]: query.get(out ? "endpointId" : "sourceId"), limit: 100 };
  const list = usePages<Delivery>("/deliveries", params, (d) => d.id, { kinds: ["delivery.", "webhook.", "inbox.", "activity"], apart: 10_000, every: 30_000 });
  const endpoints = useResource<Page<Endpoint>>(out ? "/webhook-endpoints" : null, { limit: 200 });
  const url = (d: Delivery) => endpoints.data?.items.find((e) => e.id === d.endpointId)?.url;
  const rows = list.items ?? [];
  const back = () => go(href("webhooks", query));
  return (
    <div class={id ? "split open" : undefined}>
      <div>
        <Filters>
          <Seg label="Direction" now={direction} of={[["inbound", "In"], ["outbound", "Out"]]} onChange={(v) => setQuery({ direction: v === "outbound" ? v : null, status: null, sourceId: null, endpointId: null })} />
          <Choose name="status" label="Status" options={statuses[direction]} />
          <span class="grow" /><Outputs path="/deliveries" params={params} />
        </Filters>
        <Panel title={out ? "What went out" : "What came in"} note={out ? "each attempt, newest first" : "newest first"}>
          {list.error && !list.items ? <Failed error={list.error} retry={list.reload} what="The deliveries" /> : !list.items ? <Loading lines={6} />
            : rows.length ? (
              <List label={out ? "Attempts to deliver" : "Webhooks that came"} rows={rows} rowKey={(d) => d.id} selected={id} href={(d) => href("webhooks/" + d.id, query)} onEnd={list.more}
                columns={[
                  { key: "what", head: "Delivery", cell: (d) => <span class="trunc block two"><b class="strong">{d.event || "(no event)"}</b> <span class="muted mono wide">{fmt.short(d.deliveryId ?? d.id, 14)}</span></span> },
                  { key: "status", head: "Status", width: "132px", cell: (d) => <Delivered of={d} /> },
                  { key: "who", head: out ? "Endpoint" : "Source", width: "22%", wide: true, cell: (d) => <span class="trunc block">{out ? host(url(d)) : d.source}</span> },
                  ...(out ? [] : [{ key: "did", head: "Did", width: "18%", wide: "desk" as const, spare: true, cell: (d: Delivery) => <span class="trunc block dim">{didOf(d) ?? "–"}</span> }]),
                  { key: "tries", head: out ? "Attempt" : "Attempts", width: "86px", right: true, wide: true, cell: (d) => fmt.count(d.attempt ?? d.attempts ?? 1) },
                  { key: "took", head: out ? "Answer" : "Repeats", width: "96px", right: true, wide: true, cell: (d) => out ? (d.statusCode ?? "–") : d.duplicates ? <span title={d.conflict ? "It came again with another body, which was not taken" : undefined}>{d.duplicates}{d.conflict && " !"}</span> : <span class="muted">–</span> },
                  { key: "at", head: "At", width: "104px", right: true, cell: (d) => <Time at={at(d)} /> },
                ]} />
            ) : query.get("status") || query.get("sourceId") || query.get("endpointId")
              ? <Filtered what="delivery" all="/deliveries" keep={{ direction }} clear={() => setQuery({ status: null, sourceId: null, endpointId: null })} />
              : out ? <Empty title="Nothing was sent out yet" action={<a class="btn" href="?view=endpoints">Endpoints</a>}>An endpoint is a URL that is told of events. Add one, and each attempt to reach it stands here.</Empty>
                : <Empty title="No webhook came yet" action={<a class="btn" href="?view=sources">Sources</a>}>A source may send webhooks, and its rules say what they do. What it sends stands here.</Empty>}
        </Panel>
      </div>
      {id && <Detail id={id} known={rows.find((d) => d.id === id)} others={rows} close={back} changed={list.reload} />}
    </div>
  );
}

function Detail({ id, known, others, close, changed }: { id: string; known?: Delivery; others: Delivery[]; close: () => void; changed: () => void }) {
  const read = useResource<Delivery>(`/deliveries/${id}`, undefined, { kinds: ["delivery.", "inbox."], every: 30_000 });
  const d = read.data ?? known;
  const attempts = d?.direction === "outbound" ? others.filter((o) => o.deliveryId === d.deliveryId && o.endpointId === d.endpointId) : [];
  const again = async (anew: boolean) => {
    try {
      await api.post(`/deliveries/${id}/redeliver`, anew ? { anew } : {});
      toast(d?.direction === "outbound" ? "It is sent again" : "It is done again, by the rules as they are now");
    } catch (e) {
      toast(e instanceof Error ? e.message : String(e));
    }
    read.reload();
    changed();
  };
  return (
    <Pane title={d?.event || "Delivery"} status={d && <Delivered of={d} />} onClose={close} label="Delivery"
      foot={can("redeliver") && <><button class="btn" onClick={() => void again(false)}>Redeliver</button><Copy text={() => curl(`/deliveries/${id}`)} label="Copy as curl" said="Copied as curl" /></>}>
      <Shown of={{ ...read, data: d }} what="The delivery">
        {(d) => (
          <>
            {d.error && <div class="why"><p class="eyebrow">Why it was not delivered</p><q>{d.error}</q></div>}
            <Facts of={[
              ["Direction", d.direction === "outbound" ? "out" : "in"], ["From", d.source], ["About", d.subject], ["Id", <span class="mono">{d.deliveryId ?? d.id}</span>],
              ["At", <Time at={at(d)} />], ["Ended", d.endedAt && <Time at={d.endedAt} />],
              [d.direction === "outbound" ? "Attempt" : "Attempts", fmt.count(d.attempt ?? d.attempts)], ["Answer", d.statusCode], ["Took", d.durationMs !== null && d.durationMs !== undefined ? fmt.duration(d.durationMs) : null],
              ["Next try", next(d) && <Time at={next(d)} />], ["Did", didOf(d)], ["Came again", d.duplicates ? `${d.duplicates} times${d.conflict ? ", once with another body, which was not taken" : ""}` : null],
              ["Trace", <TraceLink id={d.traceId} keep={20} />],
            ]} />
            {attempts.length > 1 && (
              <><div class="sec">Attempts</div><ol class="log">{attempts.map((a) => <li key={a.id}><Time at={at(a)} /><Status kind="delivery" value={a.status} bare /><span>{a.attempt}. {a.statusCode ?? ""} {a.error ?? ""} <Tag>{fmt.duration(a.durationMs)}</Tag></span></li>)}</ol></>
            )}
            {d.headers && <><div class="sec">Headers</div><Code value={d.headers} /></>}
            {d.body !== undefined && <><div class="sec">Body</div><Code value={parsed(d.body)} /></>}
          </>
        )}
      </Shown>
    </Pane>
  );
}

// parsed is a body as JSON, where it is JSON.
function parsed(body: unknown): unknown {
  if (typeof body !== "string") return body;
  try {
    return JSON.parse(body) as unknown;
  } catch {
    return body;
  }
}
