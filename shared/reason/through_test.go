package reason_test

import (
	"context"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// own returns the built-in skills about skills, and more.
func own(t testing.TB, more ...skill.Skill) []skill.Skill {
	t.Helper()
	all, err := skill.Skills()
	if err != nil {
		t.Fatal(err)
	}
	return append(all, more...)
}

func TestASkillIsRunByItsName(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, own(t, echo())...)
		w.run(t, llmtest.Script(t, llmtest.Call("run_skill", `{"skill": "echo_back", "input": {"text": "x"}}`), llmtest.Say("done")), job)
		if got := w.results(t, job)[0]; got.IsError || !sameJSON(got.Content, `{"text": "x"}`) {
			t.Errorf("the result is %+v", got)
		}
		if got := w.actions(t, job); len(got) != 1 || got[0].Skill != "echo_back" || !sameJSON(string(got[0].Input), `{"text": "x"}`) {
			t.Errorf("the log says %+v", got)
		}
		for arguments, want := range map[string]string{
			`{"skill": "nothing"}`:                               "does not exist",
			`{"skill": "run_skill", "input": {"skill": "x"}}`:    "name the skill that is meant",
			`{"skill": "echo_back", "input": {"text": 1}}`:       "do not fit",
			`{"skill": "echo_back", "input": "{}"}`:              "do not fit",
			`{"skill": "echo_back", "input": {}, "force": true}`: "do not fit",
		} {
			job := w.job(t, own(t, echo())...)
			w.run(t, llmtest.Script(t, llmtest.Call("run_skill", arguments), llmtest.Say("done")), job)
			if got := w.results(t, job)[0]; !got.IsError || !strings.Contains(got.Content, want) || len(w.actions(t, job)) > 0 {
				t.Errorf("%s: %+v", arguments, got)
			}
		}
	})
}

// TestNoApprovalIsGoneRound: a skill that requires an approval requires it under every name.
func TestNoApprovalIsGoneRound(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var o outside
		pay := sends("pay", func(_ context.Context, c skill.Call) (any, error) { o.reached(c); return nil, nil })
		pay.RequiresApproval = true
		job := w.job(t, own(t, pay)...)
		q, _ := w.runWaiting(t, job, llmtest.Call("run_skill", `{"skill": "pay", "input": {"to": "x"}}`), llmtest.Say("it waits"))
		if len(o.keys) > 0 || len(q.asked) != 1 || q.asked[0].Skill.Name != "pay" || !sameJSON(string(q.asked[0].Call.Arguments), `{"to": "x"}`) {
			t.Errorf("made %v, asked %+v", o.keys, q.asked)
		}
	})
}

// TestWhatRunsASkillIsLimitedItself: a kill switch and an approval for the skill that runs others hold for each
// call through it.
func TestWhatRunsASkillIsLimitedItself(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		through := llmtest.Call("run_skill", `{"skill": "echo_back", "input": {"text": "x"}}`)
		job := w.job(t, own(t, echo())...)
		r := w.runner(llmtest.Script(t, through, llmtest.Say("done")))
		r.Switches = switches("skill:run_skill")
		if _, err := r.Run(job.Under(t.Context()), job); err != nil {
			t.Fatal(err)
		}
		got := w.results(t, job)[0]
		if !got.IsError || !strings.Contains(got.Content, "run_skill is switched off") || len(w.actions(t, job)) > 0 {
			t.Errorf("switched off, it brings %+v", got)
		}

		skills := own(t, echo())
		for i := range skills {
			skills[i].RequiresApproval = skills[i].Through
		}
		job = w.job(t, skills...)
		q, _ := w.runWaiting(t, job, through, llmtest.Say("it waits"))
		if len(q.asked) != 1 || q.asked[0].Skill.Name != "echo_back" {
			t.Errorf("a person is asked about %+v, and the calls bring %+v", q.asked, w.results(t, job))
		}
	})
}

func TestAListOfSkillsIsOfTheRunsOwn(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, own(t, echo())...)
		out := w.run(t, llmtest.Script(t, llmtest.Call("list_skills", `{}`, "list_skills", `{"q": "ECHO", "parameters": true}`), llmtest.Say("done")), job)
		all, one := w.results(t, job)[0].Content, w.results(t, job)[1].Content
		if out.Status != execution.Completed || strings.Count(all, `"name"`) != 3 || strings.Contains(all, `"parameters"`) {
			t.Errorf("all are %s", all)
		}
		if strings.Count(one, `"name"`) != 1 || !strings.Contains(one, `"parameters"`) {
			t.Errorf("one is %s", one)
		}
	})
}
