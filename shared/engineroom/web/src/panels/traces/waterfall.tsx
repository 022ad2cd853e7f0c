import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { serverNow } from "../../app/api";
import { fmt, second } from "../../app/fmt";
import { useKeys } from "../../app/keys";
import { Glyph, Icon } from "../../ui/icon";
import { wordOf } from "../../ui/status";
import { axisOf, shownOf, type Span, ticksOf } from "./spans";

const icons = { model: "spark", tool: "tool", lane: "lane", exec: "run", phase: "dot" };
const height = 30;
const windowedFrom = 300;
const foldedFrom = 2000;

/** Waterfall shows when what of a trace ran. */
export function Waterfall({ spans, selected, onSelect }: { spans: Span[]; selected: string | null; onSelect: (id: string) => void }) {
  const running = spans.some((s) => s.end === null);
  if (running) void second.value;
  const now = serverNow();
  const [folded, setFolded] = useState<ReadonlySet<string>>(() => new Set(spans.length > foldedFrom ? spans.filter((s) => s.kind === "exec" && s.depth > 0).map((s) => s.id) : []));
  const [zoom, setZoom] = useState<[number, number] | null>(null);
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const [range, setRange] = useState<[number, number]>([0, 80]);
  const box = useRef<HTMLDivElement>(null);
  const head = useRef<HTMLDivElement>(null);
  const shown = useMemo(() => shownOf(spans, folded), [spans, folded]);
  const axis = axisOf(spans, now, zoom);
  const first = Math.min(...spans.map((s) => s.start));
  const cutAt = axis.cut ? (axis.at(axis.cut.from) + axis.at(axis.cut.to)) / 2 : null;
  const room = matchMedia("(max-width: 900px)").matches ? 0.18 : 0.06; // half of the label of the cut, as a share of the axis
  const ticks = ticksOf(axis, first).filter((t) => cutAt === null || t.at < cutAt - 2 * room || t.at > cutAt + room);
  const windowed = shown.length > windowedFrom;

  useLayoutEffect(() => {
    const main = document.getElementById("main");
    if (!windowed || !main) return;
    let frame = 0;
    const look = (): void => {
      frame = 0;
      const top = box.current!.getBoundingClientRect().top - main.getBoundingClientRect().top + 28;
      setRange([Math.max(0, Math.floor(-top / height) - 12), Math.ceil((-top + main.clientHeight) / height) + 12]);
    };
    const soon = (): void => { frame ||= requestAnimationFrame(look); };
    look();
    main.addEventListener("scroll", soon, { passive: true });
    return () => {
      cancelAnimationFrame(frame);
      main.removeEventListener("scroll", soon);
    };
  }, [windowed]);

  const at = shown.findIndex((s) => s.id === selected);
  const move = (by: number): void => {
    const next = shown[Math.max(0, Math.min(shown.length - 1, at + by))];
    if (next) onSelect(next.id);
  };
  const fold = (id: string, on?: boolean): void => {
    const next = new Set(folded);
    if (on ?? !next.has(id)) next.add(id);
    else next.delete(id);
    setFolded(next);
  };
  useKeys({
    j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1),
    ArrowLeft: () => at >= 0 && fold(shown[at]!.id, true), ArrowRight: () => at >= 0 && fold(shown[at]!.id, false),
  });
  const before = useRef(selected);
  useEffect(() => {
    if (before.current !== selected) box.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
    before.current = selected;
  }, [selected]);

  const share = (e: PointerEvent): number => {
    const track = head.current!.getBoundingClientRect();
    return Math.max(0, Math.min(1, (e.clientX - track.left) / track.width));
  };
  const finish = (): void => {
    if (drag && Math.abs(drag[1] - drag[0]) > 0.01) setZoom([axis.back(Math.min(...drag)), axis.back(Math.max(...drag))]);
    setDrag(null);
  };
  const pct = (s: number): string => (s * 100).toFixed(3) + "%";
  const [from, to] = windowed ? [Math.min(range[0], shown.length), Math.min(range[1], shown.length)] : [0, shown.length];
  return (
    <div class="wf" role="table" aria-label="Waterfall" aria-rowcount={shown.length + 1} ref={box}>
      <div class="wf-r wf-h" role="row">
        <div class="wf-n head" role="columnheader">Span{zoom && <button type="button" class="btn sm ghost" onClick={() => setZoom(null)}>Whole trace</button>}</div>
        <div class="wf-t" role="columnheader" aria-label="When" ref={head} title="Drag to zoom, double click for all"
          onPointerDown={(e) => { e.currentTarget.setPointerCapture(e.pointerId); setDrag([share(e), share(e)]); }}
          onPointerMove={(e) => drag && setDrag([drag[0], share(e)])} onPointerUp={finish} onPointerCancel={() => setDrag(null)} onDblClick={() => setZoom(null)}>
          {ticks.map((t) => <span key={t.text} style={{ left: pct(t.at) }}>{t.text}</span>)}
          {axis.cut && <span class="cut" style={{ left: pct(cutAt!) }}>// {fmt.rough(axis.cut.to - axis.cut.from)}</span>}
          {drag && <i class="drag" style={{ left: pct(Math.min(...drag)), width: pct(Math.abs(drag[1] - drag[0])) }} />}
        </div>
        <div class="wf-c" role="columnheader">took</div><div class="wf-c" role="columnheader">cost</div>
      </div>
      <div role="rowgroup" class="wf-body" onClick={(e) => {
        const row = (e.target as Element).closest<HTMLElement>("[data-span]");
        if (!row) return;
        if ((e.target as Element).closest("[data-fold]")) fold(row.dataset.span!);
        else onSelect(row.dataset.span!);
      }} onKeyDown={(e) => {
        const row = (e.target as Element).closest<HTMLElement>("[data-span]");
        if (row && (e.key === "Enter" || e.key === " ") && e.target === row) { e.preventDefault(); onSelect(row.dataset.span!); }
      }}>
        {from > 0 && <div style={{ height: from * height + "px" }} aria-hidden="true" />}
        {shown.slice(from, to).map((s, i) => {
          const end = s.end ?? now;
          const a = axis.at(s.start), b = axis.at(Math.max(end, s.start));
          const out = end < axis.from || s.start > axis.to;
          const bad = s.tone === "failed", wait = s.tone === "person", runs = s.end === null && s.kind !== "lane" && s.tone === "active" && s.kind !== "exec";
          return (
            <div class="wf-r" role="row" key={s.id} tabIndex={0} data-span={s.id} aria-selected={s.id === selected} aria-rowindex={from + i + 2}>
              <div class="wf-n" role="cell" style={{ paddingLeft: `calc(12px + ${Math.min(s.depth, 8)} * var(--indent))` }}>
                {s.children > 0
                  ? <button type="button" class={"fold" + (folded.has(s.id) ? "" : " open")} data-fold aria-expanded={!folded.has(s.id)} aria-label={`Fold ${s.name}`} tabIndex={-1}><Icon name={s.kind === "exec" ? "run" : "dot"} /></button>
                  : <span class="muted"><Icon name={icons[s.kind]} /></span>}
                <span class={"lbl " + s.kind}>{s.name}</span><span class="x trunc">{s.extra}</span>
                {(bad || wait || s.tone === "warn" || (s.end === null && s.kind !== "lane")) && <Glyph tone={s.tone} />}
                <span class="sr">{s.activity ? wordOf("activity", s.activity.status) : s.execution ? wordOf("execution", s.execution.status) : ""}</span>
              </div>
              <div class="wf-t" role="cell">
                {ticks.map((t) => <i key={t.text} class="tick" style={{ left: pct(t.at) }} />)}
                {!out && <span class={`bar ${s.kind}${bad ? " bad" : ""}${wait ? " wait" : ""}${runs ? " runs" : ""}`} style={{ left: pct(a), width: pct(Math.max(0, b - a)) }} />}
                {axis.cut && <i class="cutline" style={{ left: pct(axis.at(axis.cut.from)), width: pct(axis.at(axis.cut.to) - axis.at(axis.cut.from)) }} />}
                {running && <i class="nowl" style={{ left: pct(axis.at(now)) }} />}
              </div>
              <div class="wf-c" role="cell">{s.kind === "lane" ? "" : fmt.duration(end - s.start)}</div>
              <div class="wf-c" role="cell">{s.cost ? fmt.money(s.cost) : ""}</div>
            </div>
          );
        })}
        {to < shown.length && <div style={{ height: (shown.length - to) * height + "px" }} aria-hidden="true" />}
      </div>
    </div>
  );
}
