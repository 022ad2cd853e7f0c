package turn

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// findThread finds or opens the thread of the turn, and checks its persona.
func (s *turn) findThread(ctx context.Context, t Turn) error {
	var wrong problem.InvalidError
	for _, said := range t.Before {
		wrong.If(!thread.Storable(said.Body), "before", "has messages of at most 65536 bytes of text")
		wrong.If(said.Role != thread.User && said.Role != thread.Assistant && said.Role != thread.System, "before",
			"has messages of user, assistant and system")
	}
	if err := wrong.OrNil(); err != nil {
		return err
	}
	if s.Window > 0 && s.Leading > 0 && sizeOf(s.Before[:s.Leading])+len(s.Message) > maxInstructed*s.Window {
		return ErrInstructions
	}
	var b db.Batch
	var found *[]thread.Thread
	var served *persona.Found
	unspent := func() (*execution.Spent, error) { return nil, nil } //nolint:nilnil // nothing bounds it
	switch {
	case t.Thread != "":
		found = s.Threads.GetIn(&b, t.Thread)
		unspent = s.unspent(&b, func() *execution.Spent { return s.Runs.SpentIn(&b, t.Thread, "", s.kind.Agent, s.here()) })
	case t.Address != "":
		found = s.Threads.AddressIn(&b, s.kind.Channel, t.Address)
		unspent = s.unspent(&b, func() *execution.Spent {
			return s.Runs.SpentAt(&b, s.kind.Channel, t.Address, s.kind.Agent, s.here())
		})
	}
	if t.Persona != "" && t.Persona != s.kind.Persona {
		served = s.Personas.Newest(&b, t.Persona)
	}
	if s.multitask != Interrupt && s.multitask != Rollback { // those do not wait in line
		s.others = s.Runs.InLine(&b, s.line(), s.exec.ID)
	}
	if b.Len() > 0 {
		if err := s.DB.Read(ctx, s.ws, &b); err != nil {
			return fmt.Errorf("read the thread of a turn: %w", err)
		}
	}
	if served != nil {
		if p, err := served.Persona(t.Persona); err != nil || !p.Serves(persona.Surface(s.kind.Name)) {
			return ErrNoPersona
		}
	}
	switch {
	case found == nil:
		s.fresh, s.Thread = true, s.IDs()
	case len(*found) > 0 && (*found)[0].Channel == s.kind.Channel:
		if !t.mayHave((*found)[0]) {
			return ErrOpener
		}
		s.Thread = (*found)[0].ID
	case t.Thread != "":
		return ErrNoThread
	}
	used, err := unspent()
	if err == nil && used != nil {
		err = s.payable(ctx, t, used)
	}
	if err != nil {
		return err
	}
	if s.Thread == "" {
		fresh := thread.Thread{Channel: s.kind.Channel, Address: t.Address}
		if t.Opener != "" {
			fresh.Metadata = map[string]string{OpenedBy: t.Opener}
		}
		opened, err := s.Threads.Open(ctx, s.ws, fresh)
		if err != nil {
			return err
		}
		if !t.mayHave(opened) { // another opened it meanwhile
			return ErrOpener
		}
		s.Thread = opened.ID
	}
	return nil
}

// mayHave reports whether the turn may have a thread.
func (t *Turn) mayHave(in thread.Thread) bool {
	return t.Opener == "" || in.Metadata[OpenedBy] == t.Opener
}

// unspent adds to a batch the read of what the thread has used, by read, and of what it may. The
// returned function, which is called after the batch was sent, returns what was read, and fails with [ErrSpent] when
// the thread has used as many tokens as it may in [execution.Spell]. It returns nil where threads have no bound.
func (s *turn) unspent(b *db.Batch, read func() *execution.Spent) func() (*execution.Spent, error) {
	if s.kind.ThreadTokens == nil {
		return func() (*execution.Spent, error) { return nil, nil } //nolint:nilnil // nothing bounds it
	}
	settings, used := s.Workspaces.Settings(b), read()
	return func() (*execution.Spent, error) {
		bounds, err := settings()
		if err == nil && used.Tokens >= s.kind.ThreadTokens(bounds) {
			err = ErrSpent
		}
		return used, err
	}
}

// maxTokenPrice is above the price of a token of any model, in millionths of a dollar.
const maxTokenPrice = 100

// payable fails with [ErrBudget] when a budget has too little left for an answer, and with an [UnpricedError] when one is
// capped in money and the model has no price. Where one has less left than the model's window takes, it reads what the
// model would be asked with.
func (s *turn) payable(ctx context.Context, t Turn, used *execution.Spent) error {
	if used.Left <= 0 || used.LeftMicroUSD <= 0 {
		return ErrBudget
	}
	if used.Capped() {
		if err := s.priced(ctx, cmp.Or(t.Persona, s.kind.Persona)); err != nil {
			return err
		}
	}
	if window := int64(s.Window); window > 0 && used.Left >= window && used.LeftMicroUSD/maxTokenPrice >= window {
		return nil
	}
	var b db.Batch
	name, spoken := cmp.Or(t.Persona, s.kind.Persona), func() []thread.Spoken { return nil }
	settings, words := s.Workspaces.Settings(&b), s.Personas.Newest(&b, name)
	read := func(context.Context) *skill.Set { return nil }
	if s.SkillsIn != nil {
		read = s.SkillsIn(&b, s.ws, s.kind.Surface)
	}
	if s.Thread != "" && (s.Before == nil || s.Adds) {
		spoken = s.Threads.ReadLately(&b, s.Thread, maxHistory)
	}
	if err := s.DB.Read(ctx, s.ws, &b); err != nil {
		return fmt.Errorf("read what a turn would cost: %w", err)
	}
	bounds, err := settings()
	if err != nil {
		return err
	}
	skills := read(ctx)
	if skills == nil {
		if skills, err = s.Skills(ctx, s.ws, s.kind.Surface); err != nil {
			return err
		}
	}
	e := execution.Execution{ID: s.exec.ID, Surface: s.kind.Surface}
	job := s.speaking(s.bounded(reason.Job{Execution: e, Agent: s.kind.Agent}, nil, bounds), words.Or(name))
	job.Skills = s.allowed(skills, words.Or(name).Skills)
	job.Messages, _ = s.history(spoken())
	cost := s.Reason.LeastCost(s.ws, job)
	least := int64(cost.Input + cost.Output)
	affords := used.Left >= least
	if affords && used.LeftMicroUSD/maxTokenPrice < least { // the model's price decides
		affords, err = s.Reason.Affords(ctx, cost)
	}
	if err == nil && !affords {
		err = ErrBudget
	}
	return err
}

// priced fails with an [UnpricedError] when the model of a persona, or one that may answer instead, has no price.
func (s *turn) priced(ctx context.Context, name string) error {
	var b db.Batch
	words := s.Personas.Newest(&b, name)
	if err := s.DB.Read(ctx, s.ws, &b); err != nil {
		return fmt.Errorf("read the model of a persona: %w", err)
	}
	model, err := s.Reason.Unpriced(ctx, s.ws, words.Or(name).Model)
	if err == nil && model != "" {
		err = &UnpricedError{model}
	}
	return err
}

// here names the agent on its surface, as budgets do.
func (s *turn) here() string { return s.kind.Agent + ":" + string(s.kind.Surface) }

// maxSeen is the number of the thread's newest messages, within the bytes that [thread.Store.Lately]
// reads, that are compared with a caller's messages.
const maxSeen = 1000

// sayBefore stores those earlier messages of a turn that its thread lacks, as messages of an
// execution. It returns the stored ones.
func (s *turn) sayBefore(ctx context.Context, tx lane.Tx, a asked, execution string) ([]Said, error) {
	if len(a.Before) == 0 {
		return nil, nil
	}
	spoken, err := s.Threads.LatelyIn(ctx, tx, s.Thread, maxSeen)
	if err != nil {
		return nil, err
	}
	news := unseen(a.Before, spoken)
	for _, said := range news {
		err := s.say(ctx, tx, s.Thread, thread.Spoken{
			Role: said.Role, Body: said.Body, Execution: execution, First: true, Earlier: true, Data: thread.TrustData(s.kind.Trust),
		})
		if err != nil {
			return nil, err
		}
	}
	return news, nil
}

// unseen returns the messages of a caller that a thread lacks, in order. A message that the caller
// names twice must be in the thread twice.
func unseen(said []Said, spoken []thread.Spoken) (news []Said) {
	left := map[Said]int{}
	for _, m := range spoken {
		left[Said{m.Role, strings.TrimSpace(m.Body)}]++
	}
	for _, one := range said {
		key, ok := Said{one.Role, strings.TrimSpace(one.Body)}, false
		if key.Body == "" {
			continue
		}
		if left[key] > 0 {
			left[key]--
			continue
		}
		if one.Role == thread.Assistant {
			key, ok = heardAs(key.Body, left)
		}
		if ok {
			left[key]--
			continue
		}
		news = append(news, one)
	}
	return news
}

// heardAs finds the answer in a thread that a caller may know in another form. The caller's text
// may begin with what the model said between its calls, or lack the note that the thread stores
// after the answer. Of several answers it is the longest, so that each look finds the same one.
func heardAs(text string, left map[Said]int) (best Said, ok bool) {
	for m, n := range left {
		if n == 0 || m.Role != thread.Assistant || !strings.HasSuffix(text, m.Body) && !strings.HasPrefix(m.Body, text+"\n\n(") {
			continue
		}
		if cmp.Or(cmp.Compare(len(m.Body), len(best.Body)), cmp.Compare(m.Body, best.Body)) > 0 {
			best, ok = m, true
		}
	}
	return best, ok
}
