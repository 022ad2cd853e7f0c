import type { ComponentChildren } from "preact";
import { href, seg } from "../../app/base";
import { fmt } from "../../app/fmt";
import { useResource } from "../../app/resource";
import { go } from "../../app/router";
import { Ago, Code, Facts, Status } from "../../ui/marks";
import { Pane } from "../../ui/parts";
import { Shown } from "../../ui/states";
import { type Health, type Skill, statusOf } from "./skill";

/** Detail tells what one skill is and how it is called, and has what can be done with it. */
export function Detail({ name, health: h, acts }: { name: string; health?: Health; acts?: ComponentChildren }) {
  const skill = useResource<Skill>(`/skills/${seg(name)}`, undefined, { kinds: ["skill."] });
  return (
    <Pane title={name} label={`Skill ${name}`} status={h && <Status kind="skill" value={statusOf(h)} />} onClose={() => go(href("skills") + location.search)} foot={acts}>
      <Shown of={skill} what="The skill">
        {(s) => (
          <>
            <div class="why"><q>{s.description}</q></div>
            <Facts of={[
              ["Kind", s.kind], ["For", s.scope === "internal" ? "the agent" : s.scope === "external" ? "visitors" : "the agent and visitors"],
              ["Effect", s.effect], ["Approval", s.requiresApproval ? "each call needs one" : null],
              ["Limit", s.timeoutSeconds ? `${s.timeoutSeconds} s` : "as the workspace's settings say"],
              ["Alone", s.serial ? "not beside another skill in one step" : null],
              ["Disabled", h && !h.enabled ? `by ${h.disabledBy === "self_healing" ? "self-healing" : "a person"}${h.reason ? `: ${h.reason.replace(/ \(\w+\)$/, "")}` : ""}` : null],
              ["Last call", h?.lastAt ? <Ago at={h.lastAt} /> : "none in 14 days"], ["Last error", h?.lastError], ["p50, p95", h?.calls ? `${fmt.duration(h.p50Ms)}, ${fmt.duration(h.p95Ms)}` : null],
              ["Calls", <a class="link" href={href("activity", { skill: s.name })}>{fmt.plural(h?.calls ?? 0, "call")} in 14 days</a>],
            ]} />
            <div class="sec">Parameters</div><Code value={s.parameters} />
            {s.config !== undefined && s.config !== null && <><div class="sec">Configuration</div><Code value={s.config} /></>}
          </>
        )}
      </Shown>
    </Pane>
  );
}
