import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { api, can, confirm, Copy, curl, Empty, Failed, fmt, go, href, Icon, listen, Loading, type Page, seg, Since, Status, Tag, toast, useResource } from "../../ui";
import { type Message, messagesOf, nameOf, ordinal, type Outgoing, resendable, stateOf, type Thread, waits, type Why } from "./thread";

interface Spoken {
  messages: Message[];
  outbox: Outgoing[];
  more: boolean; // there are still later messages
}

// useSpoken reads a conversation to its end, and anew when something is said in it.
function useSpoken(id: string) {
  const [spoken, setSpoken] = useState<Spoken>();
  const [error, setError] = useState<Error | null>(null);
  const run = useRef(0);
  const read = useCallback(async () => {
    const mine = ++run.current;
    try {
      const outbox = await api.get<Page<Outgoing>>(`/threads/${seg(id)}/outbox`, { limit: 200 });
      const said = await messagesOf(`/threads/${seg(id)}/messages`);
      if (mine !== run.current) return;
      setSpoken({ ...said, outbox: outbox.items });
      setError(null);
    } catch (e) {
      if (mine === run.current) setError(e instanceof Error ? e : new Error(String(e)));
    }
  }, [id]);
  useEffect(() => {
    void read();
    const ends = listen(["message.", "thread."], (events, reset) => {
      if (reset || events.some((e) => e.subject === id || e.data.threadId === id)) void read();
    });
    return () => {
      run.current++;
      ends();
    };
  }, [read]);
  return { spoken, error, read };
}

/** Conversation shows one thread: who has it, what was said, what waits to be said. */
export function Conversation({ id, known, changed }: { id: string; known?: Thread; changed: () => void }) {
  const read = useResource<Thread>(known ? null : `/threads/${seg(id)}`);
  const why = useResource<Why>(`/threads/${seg(id)}/why`, undefined, { kinds: ["thread.", "message."], every: 30_000 });
  const { spoken, error, read: again } = useSpoken(id);
  const end = useRef<HTMLDivElement>(null);
  const count = (spoken?.messages.length ?? 0) + (spoken?.outbox.length ?? 0);
  useEffect(() => { if (end.current) end.current.scrollTop = end.current.scrollHeight; }, [count]);
  const t = known ?? read.data;
  if (read.error && !read.data) return <section class="panel"><Failed error={read.error} retry={read.reload} what="The thread" /></section>;
  if (!t) return <section class="panel"><Loading /></section>;
  const afterwards = () => { why.reload(); void again(); changed(); };

  return (
    <section class="panel" aria-label={`Conversation with ${nameOf(t)}`}>
      <div class="ph">
        <button class="btn ghost icon hide-d" aria-label="Back to all threads" onClick={() => go(href("threads") + location.search)}><Icon name="back" /></button>
        <h2 class="trunc">{nameOf(t)}</h2> <Tag>{t.channel}</Tag><small class="mono hide-p">{t.id}</small><span class="grow" />
        <Copy small text={() => curl(`/threads/${t.id}/messages`)} said="Copied as curl" />
      </div>
      <LockBar thread={t} why={why.data} after={afterwards} />
      <div class="conv" ref={end} tabIndex={0} role="log" aria-label="Messages">
        {error ? <Failed error={error} retry={() => void again()} what="The messages" /> : !spoken ? <Loading /> : <Messages thread={t} spoken={spoken} why={why.data} after={afterwards} />}
      </div>
    </section>
  );
}

// meanwhile says what becomes of what others want to say while the holder waits for the person's answer.
const meanwhile: Record<string, string> = {
  queue: "Messages of others wait until then.",
  supersede: "Another execution that speaks takes the conversation.",
  hand_over: "Another execution may speak meanwhile, and then gives the conversation back.",
};

function LockBar({ thread: t, why, after }: { thread: Thread; why?: Why; after: () => void }) {
  const lock = why ? why.lock : t.lock;
  const state = stateOf({ lock });
  const agent = t.holder?.agent || (lock ? `execution ${fmt.short(lock.executionId)}` : "");
  const below = lock && lock.stack.length > 1 ? lock.stack[0] : undefined;
  const frees = why?.freesAt ?? t.holder?.expiresAt;
  const unlock = async () => {
    const answer = await confirm({
      title: `Unlock the conversation with ${nameOf(t)}?`,
      effect: `${agent} may not speak in it any more until it takes the thread again.${t.queued ? ` ${t.queued === 1 ? "The queued message goes" : `The first of ${t.queued} queued messages goes`} out next.` : ""}`,
      reason: true,
      action: "Force unlock",
    });
    if (!answer) return;
    try {
      await api.post(`/threads/${seg(t.id)}/force-unlock`, { reason: answer.reason });
      toast("The conversation is free");
    } catch (e) {
      toast(e instanceof Error ? e.message : String(e));
    }
    after();
  };
  return (
    <div class="lockbar">
      <Status kind="thread" value={state} />
      <span class="grow dim">
        {!lock ? "Nobody has the conversation: the next one to speak takes it."
          : lock.parkedBy ? <><b>{agent}</b> waits for the person's answer{lock.parkedUntil && <>, until {fmt.time(lock.parkedUntil, false)}</>}. {meanwhile[t.policy] ?? meanwhile.queue}</>
          : <><b>{agent}</b> {why?.doing ? `(${why.doing}) ` : ""}speaks for <Since at={lock.lockedAt} />{below && <>, under the lock of execution {fmt.short(below)}</>}.
              {state === "stale" ? " The lock is stale: the next one to ask takes the conversation." : frees && <> The lock ends at {fmt.time(frees)} unless it is used.</>}</>}
      </span>
      {lock && can("force-unlock-thread") && <button class="btn sm danger" onClick={() => void unlock()}>Force unlock</button>}
    </div>
  );
}

function Messages({ thread: t, spoken, why, after }: { thread: Thread; spoken: Spoken; why?: Why; after: () => void }) {
  const order = (m: Outgoing) => (why?.waiting.findIndex((w) => w.messageId === m.id) ?? -1) + 1;
  const oldestFirst = [...spoken.outbox].reverse();
  const unsent = oldestFirst.filter((m) => m.status !== "sent" && !waits(m) && m.status !== "superseded");
  const queued = oldestFirst.filter(waits);
  const resend = async (m: Outgoing) => {
    try {
      await api.post(`/threads/${seg(t.id)}/outbox/${m.id}/resend`, {});
      toast("The message goes out again");
    } catch (e) {
      toast(e instanceof Error ? e.message : String(e));
    }
    after();
  };
  if (!spoken.messages.length && !spoken.outbox.length) return <Empty title="Nothing was said yet">What the person writes and what agents answer stands here.</Empty>;
  // What could not be sent stands where it belongs in time; what waits stands at the end, in its order.
  const lines = [
    ...spoken.messages.map((m) => ({ at: m.createdAt, node: <Bubble key={m.id} thread={t} message={m} sent={spoken.outbox.find((o) => o.id === m.id)} /> })),
    ...unsent.map((m) => ({
      at: m.createdAt,
      node: (
        <div key={m.id} class="msg out unsent">
          <Status kind="message" value={m.status} />
          <span class="text">{m.body}</span>
          <small>{m.lastError ? `${m.lastError} · ` : ""}{fmt.plural(m.attempts, "attempt")} · {fmt.time(m.createdAt)}</small>
          {resendable(m) && can("resend-message") && <button class="btn sm" onClick={() => void resend(m)}>Send again</button>}
        </div>
      ),
    })),
  ].sort((a, b) => a.at.localeCompare(b.at));
  return (
    <>
      {lines.map((l) => l.node)}
      {spoken.more && <p class="muted">Later messages are left out; read them with <code>{`GET /api/v1/threads/${t.id}/messages`}</code>.</p>}
      {queued.map((m, i) => (
        <div key={m.id} class="msg ghost">
          <Status kind="message" value={m.status} word={m.status === "sending" ? undefined : `Queued, ${ordinal(order(m) || i + 1)}`} />
          <span class="text">{m.body}</span>
          <small>{m.executionId ? `execution ${fmt.short(m.executionId)} · ` : ""}since {fmt.time(m.createdAt)}{m.expiresAt && ` · expires ${fmt.time(m.expiresAt, false)}`}</small>
        </div>
      ))}
    </>
  );
}

function Bubble({ thread: t, message: m, sent }: { thread: Thread; message: Message; sent?: Outgoing }) {
  const theirs = m.role === "user";
  const who = theirs ? (t.address === t.id ? "person" : t.address) : m.executionId && m.executionId === t.holder?.executionId ? t.holder.agent : "agent";
  return (
    <div class={theirs ? "msg" : "msg out"}>
      <span class="text">{m.body}</span>
      <small>{who} · {fmt.time(m.createdAt, false)}{sent && ` · ${sent.status}`}</small>
    </div>
  );
}
