package valkey

import (
	"context"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/live"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// The durable methods return [live.ErrEphemeral]: a Redis keeps nothing that counts.

// CreateTask returns [live.ErrEphemeral].
func (*Client) CreateTask(context.Context, db.Workspace, task.Task) (task.Task, error) {
	return task.Task{}, live.ErrEphemeral
}

// GetTask returns [live.ErrEphemeral].
func (*Client) GetTask(context.Context, db.Workspace, string) (task.Task, error) {
	return task.Task{}, live.ErrEphemeral
}

// UpdateTask returns [live.ErrEphemeral].
func (*Client) UpdateTask(context.Context, db.Workspace, task.Report, live.Change) (task.Task, error) {
	return task.Task{}, live.ErrEphemeral
}

// ListTasks returns [live.ErrEphemeral].
func (*Client) ListTasks(context.Context, db.Workspace, task.Filter) ([]task.Task, error) {
	return nil, live.ErrEphemeral
}

// GetOrCreateThread returns [live.ErrEphemeral].
func (*Client) GetOrCreateThread(context.Context, db.Workspace, thread.Thread) (thread.Thread, error) {
	return thread.Thread{}, live.ErrEphemeral
}

// GetThread returns [live.ErrEphemeral].
func (*Client) GetThread(context.Context, db.Workspace, string) (thread.Thread, error) {
	return thread.Thread{}, live.ErrEphemeral
}

// UpdateThread returns [live.ErrEphemeral].
func (*Client) UpdateThread(context.Context, db.Workspace, string, thread.Change) (thread.Thread, error) {
	return thread.Thread{}, live.ErrEphemeral
}

// AppendMessage returns [live.ErrEphemeral].
func (*Client) AppendMessage(context.Context, db.Workspace, string, thread.Spoken) (string, error) {
	return "", live.ErrEphemeral
}

// GetMessages returns [live.ErrEphemeral].
func (*Client) GetMessages(context.Context, db.Workspace, string, int) ([]thread.Spoken, error) {
	return nil, live.ErrEphemeral
}
