package api_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// routeOf maps a built-in skill to the route that does the same. It maps a skill that calls other
// skills to "".
var routeOf = map[string]string{
	"set_objective": "create-objective", "plan_objective": "replace-objective-steps", "advance_plan": "replace-objective-steps",
	"complete_objective": "complete-objective",
	"save_memory":        "create-memory", "search_memory": "list-memories", "forget_memory": "delete-memory",
	"create_task": "create-agent-task", "get_task": "get-agent-task",
	"create_automation": "create-automation", "send_message": "send-message",
	"query_activity": "list-activity", "list_skills": "list-skills", "run_skill": "",
}

// A person cannot use the agent for something that the matching route refuses to the person.
func TestABuiltInSkillNeedsTheRoleOfItsRoute(t *testing.T) {
	w := onOne(t)
	objectives, err1 := objective.Skills(w.Objectives)
	memories, err2 := memory.Skills(w.Memories)
	automations, err3 := automation.Skills(w.Automations)
	threads, err4 := thread.Skills(w.Threads, nil)
	query, err5 := skill.QueryActivity(w.Activity, time.Now)
	own, err6 := skill.Skills()
	tasks, err7 := task.Skills(w.Tasks, w.Secrets)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}
	least := map[string]auth.Role{"": auth.Member}
	for _, r := range api.Routes() {
		least[r.ID] = r.Least
	}
	for _, k := range slices.Concat(objectives, memories, automations, threads, own, tasks, []skill.Skill{query}) {
		route, known := routeOf[k.Name]
		role, there := least[route]
		if !known || !there {
			t.Errorf("which route does what %s does?", k.Name)
		} else if k.Admins != (role != auth.Member) {
			t.Errorf("%s is kept from members: %t; %s needs %s", k.Name, k.Admins, route, role)
		}
	}
}
