import { fmt } from "../../app/fmt";
import { Panel } from "../../ui/parts";
import type { Queue } from "./lane";

// Queues shows the queues of the process that answers. Only the local admin is told them.
export function Queues({ queues }: { queues: Queue[] }) {
  return (
    <Panel title="Queues in this process" note="in front of the lanes; local only">
      <div class="scroll">
        <table class="tbl" aria-label="Queues in this process">
          <thead>
            <tr>
              <th>Queue</th><th class="r">Waiting</th><th class="r">Active</th><th class="r hide-p">Oldest</th>
              <th class="r hide-p">Completed</th><th class="r">Failed</th><th class="r hide-p">Refused</th><th class="hide-p waited">Waited</th>
            </tr>
          </thead>
          <tbody>
            {queues.map((q) => (
              <tr key={q.lane}>
                <td class="strong">{q.lane || "others"}</td>
                <td class="r">{fmt.count(q.depth)}</td>
                <td class="r">{fmt.count(q.active)}</td>
                <td class="r muted hide-p">{q.depth ? fmt.duration(q.oldestMs) : "–"}</td>
                <td class="r muted hide-p">{fmt.count(q.completed)}</td>
                <td class={q.failed ? "r" : "r muted"}>{fmt.count(q.failed)}</td>
                <td class="r muted hide-p">{fmt.count(q.refused)}</td>
                <td class="hide-p"><Waited queue={q} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

// Waited shares a bar out among the jobs that waited not at all, for less than a second, and longer.
function Waited({ queue }: { queue: Queue }) {
  const parts = [0, 0, 0];
  for (const b of queue.waited) parts[b.untilMs && b.untilMs <= 10 ? 0 : b.untilMs && b.untilMs <= 1000 ? 1 : 2]! += b.jobs;
  const all = parts.reduce((a, b) => a + b, 0);
  const said = `up to 10 ms: ${parts[0]}, up to 1 s: ${parts[1]}, longer: ${parts[2]}`;
  if (!all) return <span class="muted">–</span>;
  return (
    <span class="share" role="img" aria-label={said} title={said}>
      {parts.map((n, i) => n > 0 && <i key={i} class={`s${3 - i}`} style={{ width: `${(100 * n) / all}%` }} />)}
    </span>
  );
}
