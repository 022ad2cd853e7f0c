// Package seed creates the initial content of a database: the default workspace, its first owner
// and the demo content.
package seed

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

//go:embed demo.json
var demoContent []byte

// demoWorkspace is the demo content of the default workspace.
type demoWorkspace struct {
	Objectives []demoObjective `json:"objectives"`
	Skills     []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Config      json.RawMessage `json:"config"`
	} `json:"skills"`
	Automations []struct {
		Name     string          `json:"name"`
		Skill    string          `json:"skill"`
		Input    json.RawMessage `json:"input"`
		Cron     string          `json:"cron"`
		TimeZone string          `json:"time_zone"`
		Event    string          `json:"event"`
		// Failures is how often the skill of the automation has failed already. Such an
		// automation is due at once, and after one more failure self-healing disables the skill.
		Failures int `json:"failures"`
	} `json:"automations"`
	Tasks    []demoTask `json:"tasks"`
	Memories []struct {
		Category   string `json:"category"`
		Content    string `json:"content"`
		Importance int    `json:"importance"`
	} `json:"memories"`
}

// demoTask is a task of the demo, which the built-in worker does.
type demoTask struct {
	Title     string          `json:"title"`
	Priority  int             `json:"priority"`
	DependsOn []int           `json:"depends_on"` // indexes of tasks before it
	Steps     json.RawMessage `json:"steps"`      // that the demo model takes
}

// Lane is a lane of the default workspace. A process that makes or removes a demo holds it, so that two
// processes on one database make one demo.
const Lane lane.Name = "demo"

const (
	// seedLease is the longest time for which [Seed] holds the lane. A killed process blocks the next one for this
	// long.
	seedLease = 15 * time.Second
	// seedPatience is how long [Seed] waits for the lane: longer than a process that was killed while it made a
	// demo keeps it held.
	seedPatience = time.Minute
)

const (
	// DemoAgent is the id of the agent that does the demo's tasks. The built-in worker is started for it.
	DemoAgent = "00000000-0000-7000-8000-0000000d1001"
	// DemoCapability is the capability that the demo's tasks require of an agent.
	DemoCapability = "demo"

	// Tag is the tag of the demo's tasks.
	Tag = "demo"
	// CreatedBy is the creator that rows of the demo content name.
	CreatedBy = "demo"
)

// Added has the ids of the objectives, the names of the automations and skills, and the contents of the
// memories that [Seed] adds.
type Added struct{ Objectives, Automations, Skills, Memories map[string]bool }

// Names returns the demo content of the default workspace, with the memories that its plans, tasks and
// automations save. It is called by lanekeeper demo remove.
func Names() Added {
	var content demoWorkspace
	_ = json.Unmarshal(demoContent, &content) // a test reads it
	a := Added{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, o := range content.Objectives {
		a.Objectives[o.ID] = true
		for _, step := range o.Steps {
			a.saved(step.Skill, step.Inputs)
		}
	}
	for _, x := range content.Automations {
		a.Automations[x.Name] = true
		a.saved(x.Skill, x.Input)
	}
	for _, k := range content.Skills {
		a.Skills[k.Name] = true
	}
	for _, m := range content.Memories {
		a.Memories[m.Content] = true
	}
	for _, t := range content.Tasks {
		var steps []struct {
			Skill  string
			Inputs json.RawMessage
		}
		_ = json.Unmarshal(t.Steps, &steps) // a task without steps has none
		for _, step := range steps {
			a.saved(step.Skill, step.Inputs)
		}
	}
	return a
}

// saved adds the memory that a call saves, if it saves one.
func (a Added) saved(skill string, input json.RawMessage) {
	var memory struct{ Content string }
	if skill == "save_memory" && json.Unmarshal(input, &memory) == nil {
		a.Memories[memory.Content] = true
	}
}

// demoObjective is an objective of the demo, with an optional plan.
type demoObjective struct {
	ID            string `json:"id"`
	Title         string `json:"title"`
	Description   string `json:"description"`
	DoneCriterion string `json:"done_criterion"`
	Priority      int    `json:"priority"`
	Steps         []struct {
		Title         string          `json:"title"`
		Skill         string          `json:"skill"`
		Inputs        json.RawMessage `json:"inputs"`
		DoneCriterion string          `json:"done_criterion"`
	} `json:"steps"`
}

// Seed creates the default workspace. If seeds has an owner, it creates the workspace's first
// owner, unless there is one. If seeds asks for the demo, it adds the demo content, once. It reports
// whether it created an owner. A repeated call changes nothing. An invalid e-mail address returns
// an [*auth.FieldError]. Seed is called after the migrations, by functions/migrate and by the local
// runner.
func Seed(ctx context.Context, core *app.Core, seeds app.Seeds) (owner bool, err error) {
	workspaces, err1 := workspace.New(core.DB)
	objectives, err2 := objective.New(core.DB, core.IDs)
	lanes, err3 := lane.New(core.DB)
	agents, err4 := agent.New(core.DB, core.IDs)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return false, fmt.Errorf("seed: %w", err)
	}
	if err := workspaces.EnsureDefault(ctx); err != nil {
		return false, err
	}
	if seeds.Owner != "" {
		if owner, err = firstOwner(ctx, core, seeds.Owner); err != nil {
			return false, err
		}
	}
	if !seeds.Demo {
		return owner, nil
	}
	if there, err := hasAgent(ctx, agents); err != nil || there {
		return owner, err
	}
	request := lane.Request{Workspace: workspace.Default, Lane: Lane, Holder: "seed", TTL: seedLease}
	return owner, lanes.Do(ctx, request, lane.Wait{Limit: seedPatience}, func(ctx context.Context, _ *lane.Hold) error {
		return seedDemo(ctx, core, objectives, agents, lanes)
	})
}

// firstOwner makes a person the owner of the default workspace, unless it has an owner.
func firstOwner(ctx context.Context, core *app.Core, email string) (made bool, err error) {
	people, err := auth.NewStore(core.DB, core.IDs, rand.Reader)
	if err != nil {
		return false, err
	}
	err = core.DB.Tx(ctx, workspace.Default, func(ctx context.Context, tx *db.Tx) (err error) {
		made, err = people.FirstOwner(ctx, tx, email, auth.Principal{Kind: auth.Local, ID: "migrate"})
		return err
	})
	return made, err
}

func seedDemo(ctx context.Context, core *app.Core, objectives *objective.Store, agents *agent.Store, lanes *lane.Store) error {
	var content demoWorkspace
	if err := json.Unmarshal(demoContent, &content); err != nil {
		return fmt.Errorf("read the demo content: %w", err)
	}
	ctx = trace.With(ctx, core.Traces.New(trace.Operate))
	if there, err := hasAgent(ctx, agents); err != nil || there {
		return err // another process has added it meanwhile
	}
	for _, o := range content.Objectives {
		request := lane.Request{Workspace: workspace.Default, Lane: lane.Objective(o.ID), Holder: "seed"}
		err := lanes.Do(ctx, request, lane.Wait{}, func(ctx context.Context, hold *lane.Hold) error {
			return seedObjective(ctx, objectives, lanes, hold, o)
		})
		if _, busy := errors.AsType[*lane.BusyError](err); err != nil && !busy { // its holder works on it already
			return fmt.Errorf("seed the demo: %w", err)
		}
	}
	if err := errors.Join(seedRest(ctx, core, content), seedTasks(ctx, core, content.Tasks)); err != nil {
		return fmt.Errorf("seed the demo: %w", err)
	}
	return seedAgent(ctx, core, agents) // last: where it is, all the rest has been
}

// demoTasksAtOnce is how many tasks the agent of the demo does at once.
const demoTasksAtOnce = 2

// hasAgent reports whether the agent of the demo is there, started by the built-in worker, or was. If so, the whole
// demo has been there, and what a person has removed since stays away.
func hasAgent(ctx context.Context, agents *agent.Store) (bool, error) {
	is, err := agents.Get(ctx, workspace.Default, DemoAgent)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	return err == nil && (is.Spawner == agent.SpawnBuiltin || is.Status == agent.Terminated), err
}

// seedAgent registers the agent of the demo, started by the built-in worker.
func seedAgent(ctx context.Context, core *app.Core, agents *agent.Store) error {
	return core.DB.Tx(ctx, workspace.Default, func(ctx context.Context, tx *db.Tx) error {
		_, _, err := agents.Register(ctx, tx, agent.Agent{
			ID: DemoAgent, Name: "worker", Capabilities: []string{DemoCapability}, CoordinatorEnabled: true, MaxConcurrentTasks: demoTasksAtOnce,
			Spawner: agent.SpawnBuiltin, CreatedBy: CreatedBy,
		})
		return err
	})
}

// seedTasks adds the tasks, unless one of them was added before.
func seedTasks(ctx context.Context, core *app.Core, list []demoTask) error {
	tasks, err := task.New(core.DB, core.IDs, mathrand.Float64)
	if err != nil {
		return err
	}
	there, err := tasks.List(ctx, workspace.Default, task.Filter{Tags: []string{Tag}, Limit: 1})
	if err != nil || len(there) > 0 {
		return err
	}
	return core.DB.Tx(ctx, workspace.Default, func(ctx context.Context, tx *db.Tx) error {
		made := make([]string, len(list))
		for i, t := range list {
			var on []string
			for _, before := range t.DependsOn {
				on = append(on, made[before])
			}
			var input json.RawMessage
			if t.Steps != nil {
				input = json.RawMessage(`{"steps":` + string(t.Steps) + `}`)
			}
			is, err := tasks.Create(ctx, tx, task.Task{
				Input: input,
				Title: t.Title, Type: "demo", Priority: cmp.Or(t.Priority, task.DefaultPriority), MaxRetries: task.DefaultRetries,
				BackoffSeconds: task.DefaultBackoff,
				Metadata:       json.RawMessage(`{"requiredCapabilities":["` + DemoCapability + `"]}`), Tags: []string{Tag},
				DependsOn: on, CreatedBy: CreatedBy,
			})
			if err != nil {
				return err
			}
			made[i] = is.ID
		}
		return nil
	})
}

// seedRest adds the skills, automations and memories that do not exist yet.
func seedRest(ctx context.Context, core *app.Core, content demoWorkspace) error {
	none, err1 := skill.NewSet()
	skills, err2 := skill.NewRegistry(core.DB, core.IDs, none, map[skill.Kind]skill.Factory{skill.HTTP: unused})
	automations, err3 := automation.New(core.DB, core.IDs)
	memories, err4 := memory.New(core.DB, core.IDs)
	log, err5 := activity.New(core.DB, core.IDs)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	add := func(fn func(context.Context, *db.Tx) error) error {
		err := core.DB.Tx(ctx, workspace.Default, fn)
		if errors.Is(err, skill.ErrTaken) || errors.Is(err, automation.ErrTaken) || errors.Is(err, memory.ErrTaken) {
			return nil
		}
		return err
	}
	var errs []error
	for _, k := range content.Skills {
		errs = append(errs, add(func(ctx context.Context, tx *db.Tx) error {
			_, err := skills.Create(ctx, tx, skill.Definition{
				Name: k.Name, Kind: skill.HTTP, Description: k.Description, Parameters: k.Parameters, Config: k.Config,
				Enabled: true, CreatedBy: CreatedBy,
			})
			return err
		}))
	}
	for _, a := range content.Automations {
		errs = append(errs, add(func(ctx context.Context, tx *db.Tx) error {
			made := automation.Automation{
				Name: a.Name, Skill: a.Skill, Input: a.Input, Cron: a.Cron, TimeZone: a.TimeZone, Event: a.Event, Enabled: true, CreatedBy: CreatedBy,
			}
			if a.Failures > 0 {
				now := core.Clock()
				made.NextRunAt = &now
			}
			_, err := automations.Create(ctx, tx, made)
			for range a.Failures {
				log.Record(ctx, tx.Later(), activity.Entry{
					Agent: activity.Operator, Surface: trace.Heartbeat, Skill: a.Skill, Status: activity.Error, Input: a.Input,
					Output: skill.ErrorOutput(skill.Theirs), Error: "Demo: the shop did not answer.",
				})
			}
			return err
		}))
	}
	for _, m := range content.Memories {
		errs = append(errs, add(func(ctx context.Context, tx *db.Tx) error {
			_, err := memories.Create(ctx, tx, memory.Memory{Agent: activity.Operator, Category: m.Category, Content: m.Content,
				Importance: m.Importance})
			return err
		}))
	}
	return errors.Join(errs...)
}

// unused returns a skill that is only registered here. Its calls fail.
func unused(d skill.Definition) (skill.Skill, error) {
	return skill.Skill{Name: d.Name, Do: func(context.Context, skill.Call) (any, error) { return nil, errors.New("not here") }}, nil
}

func seedObjective(ctx context.Context, objectives *objective.Store, lanes *lane.Store, hold *lane.Hold, o demoObjective) error {
	if _, err := objectives.Get(ctx, hold.Workspace, o.ID); !errors.Is(err, db.ErrNoRows) {
		return err // it exists already, or the database failed
	}
	return lanes.InHold(ctx, hold, func(ctx context.Context, tx lane.Tx) error {
		objectives.Create(tx.Later(), objective.Objective{
			ID: o.ID, Title: o.Title, Description: o.Description, DoneCriterion: o.DoneCriterion, Priority: o.Priority, CreatedBy: CreatedBy,
		})
		if len(o.Steps) == 0 {
			return nil
		}
		steps := make([]objective.Step, len(o.Steps))
		for i, st := range o.Steps {
			steps[i] = objective.Step{Title: st.Title, Skill: st.Skill, Inputs: st.Inputs, DoneCriterion: st.DoneCriterion}
		}
		_, err := objectives.Plan(ctx, tx, o.ID, steps)
		return err
	})
}
