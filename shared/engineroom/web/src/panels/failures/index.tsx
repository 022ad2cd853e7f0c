import { usePages } from "../../app/pages";
import { refresh, whereOf } from "../../app/overview";
import { Ago, api, can, Clear, Failed, fmt, href, Loading, More, Outputs, PageHead, Problem, seg, toast, type Happened } from "../../ui";
import "./failures.css";
import type { OpenFailure } from "../../app/api.gen";

type Failure = OpenFailure;

const kinds = { task: "Task", execution: "Run", message: "Message", delivery: "Delivery" };
const events = {
  kinds: ["task.", "execution.", "delivery.", "message.", "activity"], apart: 2000,
  // What a person dismissed, here or elsewhere, stands in the activity.
  only: (e: Happened) => e.kind !== "activity" || e.data.skill === "failure.dismiss",
};

// Failures lists what failed and needs a person, the newest first.
export default function Failures() {
  const pages = usePages<Failure>("/failures", { limit: 50 }, (f) => f.kind + f.id, events);
  const dismiss = async (f: Failure): Promise<void> => {
    try {
      await api.post(`/failures/${seg(f.kind)}/${seg(f.id)}/dismiss`, { at: f.at });
      toast("Dismissed. It comes back when it fails again.");
    } catch (error) {
      const again = error instanceof Problem && error.code === "failed_again";
      toast(again ? "It has failed again since. Read it anew." : error instanceof Problem ? error.message : "That did not work");
    }
    pages.reload();
    refresh();
  };
  const items = pages.items;
  return (
    <div class="page">
      <PageHead title="Failures" acts={<Outputs path="/failures" params={{ limit: 200 }} />}>What failed and has not succeeded since. A dismissed failure comes back when the same thing fails again.</PageHead>
      <section class="panel" aria-label="Failures">
        {!items ? pages.error ? <Failed error={pages.error} retry={pages.reload} what="Failures" /> : <Loading lines={6} />
          : !items.length ? <Clear title="Nothing failed">A task, a run, a message or a delivery that fails stands here until it succeeds or a person dismisses it.</Clear>
            : <div class="scroll"><table class="tbl fixed" aria-label="Failures">
                <thead><tr><th>What</th><th class="hide-p" style={{ width: "84px" }}>Kind</th><th class="hide-p">Why</th><th class="r hide-p" style={{ width: "110px" }}>At</th><th class="do"><span class="sr">Actions</span></th></tr></thead>
                <tbody>{items.map((f) => (
                  <tr key={f.kind + f.id} data-id={f.id}>
                    <td class="what"><a class="trunc block lnk" href={href(whereOf(f))} title={f.title}><b>{f.title}</b></a><small class="only-p muted">{fmt.words(f.why)} · <Ago at={f.at} /></small></td>
                    <td class="hide-p">{kinds[f.kind] ?? f.kind}</td>
                    <td class="hide-p"><span class="trunc block muted" title={f.why}>{fmt.words(f.why)}</span></td>
                    <td class="r hide-p"><Ago at={f.at} /></td>
                    <td class="r"><span class="acts">
                      <a class="btn sm hide-p" href={href(whereOf(f))}>Open<span class="sr"> {f.title}</span></a>
                      {can("dismiss-failure") && <button type="button" class="btn sm" onClick={() => void dismiss(f)}>Dismiss<span class="sr"> {f.title}</span></button>}
                    </span></td>
                  </tr>
                ))}</tbody>
              </table></div>}
        <More of={{ data: items && { items }, more: pages.more }} what="failures" />
        {items && pages.error && <Failed error={pages.error} retry={pages.reload} what="More of it" />}
      </section>
    </div>
  );
}
