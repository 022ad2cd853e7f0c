package heartbeat

import (
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/reason"
)

// thinking prepares a new execution of the beat that asks a model. It stores the version of the
// persona that the beat has read.
func (b *beat) thinking(e execution.Execution) execution.Execution {
	version := b.snapshot.persona.Or(persona.Flowpilot).Version
	e.Persona, e.PersonaVersion = persona.Flowpilot, &version
	return e
}

// words returns the persona of an execution, in the version that the execution stores.
func (b *beat) words(ctx context.Context, e execution.Execution) (persona.Persona, error) {
	present := b.snapshot.persona.Or(e.Persona)
	if e.PersonaVersion == nil || *e.PersonaVersion == present.Version {
		return present, nil
	}
	var batch db.Batch
	found := b.Personas.Of(&batch, e.ID)
	if err := b.DB.Read(ctx, b.tick.Workspace, &batch); err != nil {
		return persona.Persona{}, fmt.Errorf("read the persona of an execution: %w", err)
	}
	return found.Or(e.Persona), nil
}

// spoken sets a job's system prompt, model and temperature from the persona of its execution, and
// returns that persona. The prompt frames the persona's instructions. spoken does not restrict the
// job's skills.
func (b *beat) spoken(ctx context.Context, job reason.Job, prompt string) (reason.Job, persona.Persona, error) {
	words, err := b.words(ctx, job.Execution)
	job.System, job.Model, job.Temperature = words.System(prompt), words.Model, words.Temperature
	return job, words, err
}
