package api

import (
	"context"
	"strconv"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// memoryItem is one memory of an agent.
type memoryItem struct {
	ID         string     `json:"id"`
	Agent      string     `json:"agent"`
	Category   string     `json:"category"`
	Content    string     `json:"content"`
	Importance int        `json:"importance"`
	TraceID    trace.ID   `json:"traceId,omitempty" doc:"In which it was saved"`
	ExpiresAt  *time.Time `json:"expiresAt,omitempty"`
	CreatedAt  time.Time  `json:"createdAt"`
	UpdatedAt  time.Time  `json:"updatedAt"`
}

func memoryOf(m memory.Memory) memoryItem {
	return memoryItem{
		ID: m.ID, Agent: m.Agent, Category: m.Category, Content: m.Content, Importance: m.Importance, TraceID: m.Trace,
		ExpiresAt: utc(m.ExpiresAt), CreatedAt: m.CreatedAt.UTC(), UpdatedAt: m.UpdatedAt.UTC(),
	}
}

func memoryOutput(m memory.Memory) *versioned[memoryItem] {
	return &versioned[memoryItem]{ETag: tagOf(m.Version), Body: memoryOf(m)}
}

// listMemories lists memories, newest first; with a text, the best match first. It is called by the
// Engine Room and by scripts.
func (s *server) listMemories(ctx context.Context, in *struct {
	Agent         string `query:"agent" maxLength:"255"`
	Category      string `query:"category" maxLength:"100"`
	MinImportance int    `query:"minImportance" minimum:"1" maximum:"10"`
	Expired       string `query:"expired" enum:"true,false" doc:"Those that have expired, too"`
	Q             string `query:"q" maxLength:"1000" doc:"Words that must all be in it; the last may be the beginning of one. Left out or empty, all are listed"`
	Paging
}) (*answer[page[memoryItem]], error) {
	from, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	f := memory.Filter{
		Agent: in.Agent, Category: in.Category, MinImportance: in.MinImportance, Expired: in.Expired == "true", Text: in.Q, Limit: in.Limit,
	}
	switch {
	case in.Cursor == "":
	case in.Q != "":
		if f.Offset, err = from.skipped(); err != nil {
			return nil, err
		}
	default:
		if f.Before, err = position(in.Cursor); err != nil {
			return nil, err
		}
	}
	found, more, err := s.Memories.List(ctx, workspace(ctx), f)
	if err != nil {
		return nil, err
	}
	next := ""
	switch {
	case !more:
	case in.Q != "":
		next = keyCursor(strconv.Itoa(f.Offset + len(found)))
	default:
		last := found[len(found)-1]
		next = cursor{last.CreatedAt, last.ID}.String()
	}
	return listing(each(found, memoryOf), next), nil
}

// getMemory returns one memory. It is called by the Engine Room and by scripts.
func (s *server) getMemory(ctx context.Context, in *IDPath) (*versioned[memoryItem], error) {
	m, err := s.Memories.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return memoryOutput(m), nil
}

// createMemory creates a memory. It is called by the Engine Room and by scripts.
func (s *server) createMemory(ctx context.Context, in *struct {
	Body struct {
		Agent      string     `json:"agent,omitempty" maxLength:"255" doc:"Who remembers it; the operator's agent unless said"`
		Category   string     `json:"category" minLength:"1" maxLength:"100"`
		Content    string     `json:"content" minLength:"1" maxLength:"8000"`
		Importance int        `json:"importance,omitempty" minimum:"1" maximum:"10" default:"5"`
		ExpiresAt  *time.Time `json:"expiresAt,omitempty"`
	}
}) (*createdAt[memoryItem], error) {
	m := memory.Memory{
		ID:    s.newID(ctx),
		Agent: in.Body.Agent, Category: in.Body.Category, Content: in.Body.Content, Importance: in.Body.Importance, ExpiresAt: in.Body.ExpiresAt,
	}
	if m.Agent == "" {
		m.Agent = activity.Operator
	}
	m.Trace, _ = trace.From(ctx)
	err := s.change(ctx, "memory.create", func(ctx context.Context, tx *db.Tx) (err error) {
		m, err = s.Memories.Create(ctx, tx, m)
		return err
	}, "category", m.Category)
	if m, err = before(ctx, m, err, s.Memories.Get); err != nil {
		return nil, err
	}
	return &createdAt[memoryItem]{"/api/v1/memories/" + m.ID, tagOf(m.Version), memoryOf(m)}, nil
}

// patchMemory changes the given fields of a memory. It is called by the Engine Room and by scripts.
func (s *server) patchMemory(ctx context.Context, in *struct {
	IDPath
	IfMatch
	Body struct {
		Category   *string             `json:"category,omitempty" minLength:"1" maxLength:"100"`
		Content    *string             `json:"content,omitempty" minLength:"1" maxLength:"8000"`
		Importance *int                `json:"importance,omitempty" minimum:"1" maximum:"10"`
		ExpiresAt  optional[time.Time] `json:"expiresAt,omitempty" doc:"Null: never"`
	}
}) (*versioned[memoryItem], error) {
	m, err := s.Memories.Get(ctx, workspace(ctx), in.ID)
	if err == nil {
		err = in.matches(m.Version)
	}
	if err != nil {
		return nil, err
	}
	p := memory.Patch{Category: in.Body.Category, Content: in.Body.Content, Importance: in.Body.Importance}
	if in.Body.ExpiresAt.given {
		p.ExpiresAt = &in.Body.ExpiresAt.value
	}
	err = s.change(ctx, "memory.update", func(ctx context.Context, tx *db.Tx) (err error) {
		m, err = s.Memories.Patch(ctx, tx, m, p)
		return err
	}, "memory", in.ID)
	if err != nil {
		return nil, err
	}
	return memoryOutput(m), nil
}

// deleteMemory deletes a memory. It is called by the Engine Room and by scripts.
func (s *server) deleteMemory(ctx context.Context, in *IDPath) (*struct{}, error) {
	return nil, s.change(ctx, "memory.delete", func(ctx context.Context, tx *db.Tx) error {
		return s.Memories.Delete(ctx, tx, in.ID, 0)
	}, "memory", in.ID)
}

// categoryItem is a category of memories.
type categoryItem struct {
	Category string `json:"category"`
	Count    int    `json:"count"`
}

// listCategories lists the categories of memories. It is called by the Engine Room.
func (s *server) listCategories(ctx context.Context, in *struct {
	Agent string `query:"agent" maxLength:"255"`
	Paging
}) (*answer[page[categoryItem]], error) {
	found, err := s.Memories.Categories(ctx, workspace(ctx), in.Agent)
	if err != nil {
		return nil, err
	}
	items := []categoryItem{}
	for _, c := range found {
		items = append(items, categoryItem{c.Name, c.Count})
	}
	return slicePage(items, in.Cursor, in.Limit)
}
