import { usePages } from "../../app/pages";
import { Empty, Failed, Filtered, fmt, Glyph, href, Loading, Outputs, PageHead, second, Seg, seg, setQuery, Tag, toneOf, useKeys, go, useQuery, wordOf, Toggle, Filters } from "../../ui";
import { Conversation } from "./conversation";
import { nameOf, stateOf, type Thread } from "./thread";
import "./threads.css";

const channels = ["operate", "chat", "email", "slack", "sms", "http", "log"];
const news = ["thread.", "message."];

// Threads shows who speaks in which conversation, and what waits to be said.
export default function Threads({ id }: { id?: string }) {
  const [query] = useQuery();
  const lock = query.get("lock") ?? "";
  const channel = query.get("channel") ?? "";
  const params = { lock, channel, address: query.get("address"), limit: 100 };
  const threads = usePages<Thread>("/threads", params, (t) => t.id, { kinds: news });
  const rows = threads.items ?? [];
  const shown = id ?? rows[0]?.id;
  const step = (by: number) => {
    const next = rows[Math.max(0, rows.findIndex((t) => t.id === shown) + by)];
    if (next) go(href("threads/" + next.id) + location.search);
  };
  useKeys({ j: () => step(1), k: () => step(-1) });
  const filtered = lock || channel || query.get("address");
  return (
    <div class="page">
      <PageHead title="Threads" acts={<Outputs path="/threads" params={params} />}>One execution speaks in a conversation at a time. What others say meanwhile is queued.</PageHead>
      <Filters>{channels.map((c) => <Toggle key={c} name="channel" value={c}>{c}</Toggle>)}</Filters>
      {threads.error && !threads.items ? <section class="panel"><Failed error={threads.error} retry={threads.reload} what="The threads" /></section>
        : !threads.items ? <section class="panel"><Loading lines={6} /></section>
        : !rows.length && !id
          ? <section class="panel">
              {filtered ? <Filtered what="thread" all="/threads" clear={() => setQuery({ lock: null, channel: null, address: null })} />
                : <Empty title="No conversation yet" command={`bin/lanekeeper threads create '{"channel":"log","address":"ada"}'`}>A thread is a conversation with one person over one channel. It begins with the first message, or with:</Empty>}
            </section>
          : <div class="inbox">
              <section class={"panel ilist" + (id ? " hide-p" : "")} aria-label="Conversations">
                <div class="ph">
                  <h2>{lock === "stale" ? "Stale" : lock ? "Locked" : "All"}</h2><small>{rows.length}{threads.more && "+"}</small><span class="grow" />
                  <Seg label="Which threads" now={lock} of={[["", "All"], ["active", "Locked"], ["stale", "Stale"]]} onChange={(v) => setQuery({ lock: v })} />
                </div>
                {rows.map((t) => <Item key={t.id} thread={t} on={t.id === shown} />)}
                {threads.more && <button type="button" class="btn ghost more-rows" onClick={threads.more}>More</button>}
              </section>
              <div class={id ? undefined : "hide-p"}>{shown && <Conversation key={shown} id={shown} known={rows.find((t) => t.id === shown)} changed={threads.reload} />}</div>
            </div>}
    </div>
  );
}

function Item({ thread: t, on }: { thread: Thread; on: boolean }) {
  void second.value;
  const state = stateOf(t);
  return (
    <a href={href("threads/" + seg(t.id)) + location.search} aria-current={on || undefined}>
      <Glyph tone={toneOf("thread", state)} />
      <span class="grow">
        <b>{nameOf(t)}</b> <Tag>{t.channel}</Tag><span class="sr">{wordOf("thread", state)}</span>
        <small class="trunc">{t.lastMessage?.text || "Nothing was said yet"}</small>
      </span>
      <small class="num right">{fmt.ago(t.lastMessage?.at ?? t.updatedAt).replace(" ago", "")}{t.queued > 0 && <><br />{t.queued} queued</>}</small>
    </a>
  );
}
