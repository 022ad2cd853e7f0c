package api

import (
	"context"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// bulkTasks changes all tasks that a filter matches. It is called by the Engine Room.
func (s *server) bulkTasks(ctx context.Context, in *struct {
	Body struct {
		Filter TaskFilter `json:"filter"`
		Action string     `json:"action" enum:"cancel,retry,archive,pause,resume"`
		BulkCount
	}
}) (*bulkOutput, error) {
	b := in.Body
	f, err := b.Filter.of("body.filter")
	if err != nil {
		return nil, err
	}
	f.Order, f.Limit = task.Oldest, bulkPage+1
	cursor, by := "", caller(ctx)
	match := f // a task that no longer is as the person saw it when its turn comes is left
	if match.Status == "" && b.Filter.ReasonCode != "" {
		match.Status = statusOf(b.Filter.ReasonCode)
	}
	out, err := s.bulk(ctx, "task.bulk_"+b.Action, b.Filter, b.Reason, b.ExpectedCount, func(ctx context.Context, ids []string) ([]string, bool, error) {
		if f.After, err = taskPlace(cursor); err != nil {
			return nil, false, err
		}
		found, next, err := s.waitingTasks(ctx, f, b.Filter.ReasonCode, bulkPage)
		for _, t := range found {
			ids = append(ids, t.ID)
		}
		cursor = next
		return ids, next != "", err
	}, s.inTx(func(ctx context.Context, tx *db.Tx, id string) error {
		err := s.Tasks.Match(ctx, tx, id, match)
		if err != nil {
			return err
		}
		switch b.Action {
		case "cancel":
			_, err = s.Tasks.Cancel(ctx, tx, id, by, b.Reason)
		case "retry":
			_, err = s.Tasks.Retry(ctx, tx, id, by)
		case "archive":
			_, err = s.Tasks.Archive(ctx, tx, id, by)
		case "pause":
			_, err = s.Tasks.Patch(ctx, tx, id, by, anyTask, task.Patch{Status: new(task.Paused)})
		default:
			_, err = s.Tasks.Patch(ctx, tx, id, by, anyTask, task.Patch{Status: new(task.Pending)})
		}
		return err
	}))
	if err == nil {
		s.Send(workspace(ctx)) // wakes the coordinator
	}
	return out, err
}

func anyTask(task.Task) error { return nil }

// bulkApprovals rejects all calls that wait and that a filter matches. It is called by the Engine Room.
func (s *server) bulkApprovals(ctx context.Context, in *struct {
	Body struct {
		Filter ApprovalFilter `json:"filter"`
		Action string         `json:"action" enum:"reject"`
		BulkCount
	}
}) (*bulkOutput, error) {
	b := in.Body
	ws, by := workspace(ctx), caller(ctx)
	f := approval.Filter{Status: approval.Pending, Skill: b.Filter.Skill, Agent: b.Filter.Agent, Limit: bulkPage}
	out, err := s.bulk(ctx, "approval.bulk_reject", b.Filter, b.Reason, b.ExpectedCount, func(ctx context.Context, ids []string) ([]string, bool, error) {
		found, more, err := s.Approvals.List(ctx, ws, f)
		for _, a := range found {
			ids, f.Before = append(ids, a.ID), db.Position{At: a.RequestedAt, ID: a.ID}
		}
		return ids, more, err
	}, func(ctx context.Context, id string) error {
		_, err := s.Approvals.Reject(ctx, ws, id, by, b.Reason)
		return undecided(err)
	})
	if err == nil {
		s.Kick(ws) // the executions that wait for the decisions continue
	}
	return out, err
}

// bulkMemories forgets all memories that a filter matches. It is called by the Engine Room.
func (s *server) bulkMemories(ctx context.Context, in *struct {
	Body struct {
		Filter MemoryFilter `json:"filter"`
		Action string       `json:"action" enum:"forget"`
		BulkCount
	}
}) (*bulkOutput, error) {
	b := in.Body
	versions := map[string]int{} // that the filter matched
	f := memory.Filter{Agent: b.Filter.Agent, Category: b.Filter.Category, MinImportance: b.Filter.MinImportance,
		Text: b.Filter.Q, Limit: bulkPage}
	return s.bulk(ctx, "memory.bulk_forget", b.Filter, b.Reason, b.ExpectedCount, func(ctx context.Context, ids []string) ([]string, bool, error) {
		found, more, err := s.Memories.List(ctx, workspace(ctx), f)
		for _, m := range found {
			ids, versions[m.ID] = append(ids, m.ID), m.Version
			f.Before.At, f.Before.ID = m.CreatedAt, m.ID
		}
		f.Offset += len(found)
		return ids, more, err
	}, s.inTx(func(ctx context.Context, tx *db.Tx, id string) error {
		return s.Memories.Delete(ctx, tx, id, versions[id])
	}))
}

// bulkOutbox sends messages that failed, or whose outcome is unknown, again. It is called by the Engine
// Room.
func (s *server) bulkOutbox(ctx context.Context, in *struct {
	Body struct {
		Filter OutboxFilter `json:"filter"`
		Action string       `json:"action" enum:"resend"`
		BulkCount
	}
}) (*bulkOutput, error) {
	b := in.Body
	f := outbox.Filter{Status: b.Filter.Status, Limit: bulkPage}
	if b.Filter.ThreadID != "" {
		f.OrderKey = threadKey + b.Filter.ThreadID
	}
	threads := map[string]string{} // by message
	out, err := s.bulk(ctx, "thread.bulk_resend", b.Filter, b.Reason, b.ExpectedCount, func(ctx context.Context, ids []string) ([]string, bool, error) {
		found, more, err := s.Approvals.Outbox.List(ctx, workspace(ctx), f)
		for _, e := range found {
			f.Before = db.Position{At: e.CreatedAt, ID: e.ID}
			if thread, ok := strings.CutPrefix(e.OrderKey, threadKey); ok && e.Kind == outbox.Message {
				ids, threads[e.ID] = append(ids, e.ID), thread
			}
		}
		return ids, more, err
	}, func(ctx context.Context, id string) error {
		if err := s.speakable(ctx, threads[id]); err != nil {
			return err
		}
		return s.inTx(func(ctx context.Context, tx *db.Tx, id string) error {
			_, err := s.Threads.Resend(ctx, tx, threads[id], id)
			return err
		})(ctx, id)
	})
	if err == nil {
		s.Kick(workspace(ctx))
	}
	return out, err
}

// threadKey begins the order keys of threads in the outbox.
const threadKey = "thread:"

// bulkDeliveries processes received webhooks again. It is called by the Engine Room.
func (s *server) bulkDeliveries(ctx context.Context, in *struct {
	Body struct {
		Filter DeliveryFilter `json:"filter"`
		Action string         `json:"action" enum:"redeliver"`
		BulkCount
	}
}) (*bulkOutput, error) {
	b := in.Body
	ws := workspace(ctx)
	f := inbox.Filter{Status: b.Filter.Status, Source: b.Filter.SourceID, Limit: bulkPage + 1}
	out, err := s.bulk(ctx, "delivery.bulk_redeliver", b.Filter, b.Reason, b.ExpectedCount, func(ctx context.Context, ids []string) ([]string, bool, error) {
		found, err := s.Inbox.List(ctx, ws, f)
		more := len(found) > bulkPage
		for _, d := range found[:min(len(found), bulkPage)] {
			ids, f.Before = append(ids, d.ID), db.Position{At: d.ReceivedAt, ID: d.ID}
		}
		return ids, more, err
	}, s.inTx(func(ctx context.Context, tx *db.Tx, id string) error {
		_, err := s.Inbox.Replay(ctx, tx, id, false)
		return err
	}))
	if err == nil {
		s.Kick(ws)
	}
	return out, err
}

// ApprovalFilter narrows a set of calls that wait. Fields that are left out match all.
type ApprovalFilter struct {
	Status approval.Status `json:"status,omitempty" enum:"pending"`
	Skill  string          `json:"skill,omitempty" maxLength:"255"`
	Agent  string          `json:"agent,omitempty" maxLength:"255"`
}

// MemoryFilter narrows a set of memories. Fields that are left out match all.
type MemoryFilter struct {
	Agent         string `json:"agent,omitempty" maxLength:"255"`
	Category      string `json:"category,omitempty" maxLength:"100"`
	MinImportance int    `json:"minImportance,omitempty" minimum:"1" maximum:"10"`
	Q             string `json:"q,omitempty" maxLength:"1000"`
}

// OutboxFilter narrows a set of messages. Fields that are left out match all.
type OutboxFilter struct {
	Status   outbox.Status `json:"status" enum:"failed,uncertain"`
	ThreadID string        `json:"threadId,omitempty" format:"uuid"`
}

// DeliveryFilter narrows a set of webhooks. Fields that are left out match all.
type DeliveryFilter struct {
	Direction string       `json:"direction,omitempty" enum:"inbound"`
	Status    inbox.Status `json:"status" enum:"failed,parked"`
	SourceID  string       `json:"sourceId,omitempty" format:"uuid"`
}
