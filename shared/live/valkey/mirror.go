package valkey

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/event"
	"github.com/lanekeeper/lanekeeper/shared/live"
)

const (
	kept        = 10 * time.Minute // without a cycle
	sessionKept = time.Hour
	staleShown  = 5 * time.Minute // without a cycle that finds the agent stale

	positionKept = 24 * time.Hour // events are kept longer
)

// Position implements [live.Mirror].
func (c *Client) Position(ctx context.Context, ws db.Workspace) (at live.Position, there bool, err error) {
	err = c.do(ctx, "read the position of the news", c.o.Limit, func(ctx context.Context, r redis.UniversalClient) error {
		found, err := r.HGetAll(ctx, c.key("live:position", tag(ws))).Result()
		if err != nil {
			return err
		}
		micro, bad := strconv.ParseInt(found["commands"], 10, 64)
		at, there = live.Position{Events: found["events"], Commands: time.UnixMicro(micro)}, bad == nil
		return nil
	})
	return at, there, err
}

// maxPipeline is about how many commands are sent at once.
const maxPipeline = 500

// Publish implements [live.Mirror]. It takes three round trips, and one more for each maxPipeline commands:
// a transaction for the keys of the workspace, then everything else, then the news together with their
// position. So news that was cut off, or whose position the Redis refuses, comes later, and is not repeated.
// A refusal of one command cuts nothing off: it is returned once everything else was sent.
func (c *Client) Publish(ctx context.Context, ws db.Workspace, v live.View, n live.News) error {
	return c.do(ctx, "publish the live view", 4*c.o.Limit, func(ctx context.Context, r redis.UniversalClient) error {
		p := &pieces{ctx: ctx, Pipeliner: r.Pipeline()}
		if p.note(r.TxPipelined(ctx, func(p redis.Pipeliner) error { c.workspace(ctx, p, ws, v); return nil })); p.err != nil {
			return p.err
		}
		c.agents(ctx, p, ws, v)
		for _, u := range v.TaskUsage {
			agents, _ := json.Marshal(u.Agents) // of texts, which never fails
			c.hash(ctx, p.next(), c.key("usage:task", u.Task), kept,
				"allocated", u.Allocated, "consumed", u.Consumed, "remaining", u.Remaining, "agents", string(agents))
		}
		if err := p.send(); err != nil {
			return err
		}
		args := append([]any{n.After.Events, n.After.Commands.UnixMicro(), positionKept.Milliseconds()}, c.news(ws, n)...)
		if err := r.Eval(ctx, tell, []string{c.key("live:position", tag(ws))}, args...).Err(); err != nil {
			return err
		}
		return p.refusal
	})
}

// pieces is a pipeline that is sent in pieces. After an error for which the Redis is unusable, nothing more
// is sent; after the refusal of one command, everything else is.
type pieces struct {
	redis.Pipeliner
	ctx     context.Context //nolint:containedctx // that of the one call which the pipeline belongs to
	err     error
	refusal error // the first one
}

// note keeps what came of a piece. A command of it may be refused where another had no answer.
func (p *pieces) note(sent []redis.Cmder, err error) {
	if err == nil {
		return
	}
	for _, cmd := range sent {
		if failed := cmd.Err(); failed != nil && unusable(failed) {
			err = failed
			break
		}
	}
	if unusable(err) {
		p.err = err
	} else if p.refusal == nil {
		p.refusal = err
	}
}

// next returns the pipeline for a few more commands.
func (p *pieces) next() redis.Pipeliner {
	if p.Len() >= maxPipeline {
		_ = p.send() // the last one returns it
	}
	return p.Pipeliner
}

// send sends the commands so far, and returns the error for which nothing more is sent.
func (p *pieces) send() error {
	if p.err != nil {
		p.Discard()
		return p.err
	}
	if p.Len() > 0 {
		p.note(p.Exec(p.ctx))
	}
	return p.err
}

// workspace replaces the keys that a cluster keeps together.
func (c *Client) workspace(ctx context.Context, p redis.Pipeliner, ws db.Workspace, v live.View) {
	pending, active := make([]redis.Z, len(v.Pending)), make([]any, len(v.Active))
	for i, w := range v.Pending {
		pending[i] = redis.Z{Score: w.Score(), Member: w.Task}
	}
	for i, w := range v.Active {
		active[i] = w.Task + ":" + w.Session
	}
	recovering, alerts := make([]any, len(v.Recovering)), make([]any, len(v.Alerts))
	for i, id := range v.Recovering {
		recovering[i] = id
	}
	for i, a := range v.Alerts {
		alert, _ := json.Marshal(struct { // of texts and numbers, which never fails
			Task    string `json:"task_id"`
			Level   string `json:"level"`
			Percent int    `json:"percent_used"`
			Message string `json:"message"`
		}{a.Task, a.Level, a.Percent, a.Message})
		alerts[i] = alert
	}
	replace := func(key string, n int, fill func(key string)) {
		key = c.key(key, tag(ws))
		if p.Del(ctx, key); n > 0 {
			fill(key)
			p.PExpire(ctx, key, kept)
		}
	}
	replace("tasks:pending", len(pending), func(key string) { p.ZAdd(ctx, key, pending...) })
	replace("tasks:active", len(active), func(key string) { p.SAdd(ctx, key, active...) })
	replace("coordinator:recovery_queue", len(recovering), func(key string) { p.RPush(ctx, key, recovering...) })
	replace("usage:alerts", len(alerts), func(key string) { p.RPush(ctx, key, alerts...) })
	usage := 0
	if v.Usage != nil {
		usage = 1
	}
	replace("usage:current", usage, func(key string) {
		p.HSet(ctx, key, "total_tokens", v.Usage.Tokens, "total_cost_usd", strconv.FormatFloat(float64(v.Usage.MicroUSD)/1e6, 'f', -1, 64),
			"last_updated", stamp(v.Usage.UpdatedAt))
	})
}

// agents replaces the keys of agents and of their sessions, on whatever nodes they are.
func (c *Client) agents(ctx context.Context, all *pieces, ws db.Workspace, v live.View) {
	tasks := map[string][]any{}
	for _, w := range v.Active {
		tasks[w.Agent] = append(tasks[w.Agent], w.Task, stamp(w.AssignedAt))
		if w.Session != "" {
			c.hash(ctx, all.next(), c.key("session:context", w.Session), sessionKept,
				"workspace_id", string(ws), "agent_id", w.Agent, "task_id", w.Task, "started_at", stamp(w.AssignedAt))
		}
	}
	stale := c.key("coordinator:stale_agents")
	for _, a := range v.Agents {
		p := all.next()
		c.hash(ctx, p, c.key("agent:tasks", a.ID), kept, tasks[a.ID]...)
		if a.Stale() {
			p.ZAdd(ctx, stale, redis.Z{Score: float64(v.Now.UnixMilli()), Member: a.ID})
		} else {
			p.ZRem(ctx, stale, a.ID)
		}
		if a.Status == agent.Terminated {
			p.Del(ctx, c.key("agent:status", a.ID))
			p.Del(ctx, c.key("agent:heartbeat", a.ID))
			continue
		}
		last := ""
		if a.LastSeenAt != nil {
			last = stamp(*a.LastSeenAt)
			if left := a.LastSeenAt.Add(a.HeartbeatTTL()).Sub(v.Now); left > 0 {
				p.Set(ctx, c.key("agent:heartbeat", a.ID), heartbeat(a.Status, a.Task, *a.LastSeenAt), left)
			}
		}
		c.hash(ctx, p, c.key("agent:status", a.ID), kept, "status", string(a.Status), "current_task", a.Task, "last_heartbeat", last)
	}
	p := all.next()
	p.PExpire(ctx, stale, kept)
	p.ZRemRangeByScore(ctx, stale, "-inf", strconv.FormatInt(v.Now.Add(-staleShown).UnixMilli(), 10))
}

// hash replaces a hash.
func (c *Client) hash(ctx context.Context, p redis.Pipeliner, key string, ttl time.Duration, fields ...any) {
	if p.Del(ctx, key); len(fields) > 0 {
		p.HSet(ctx, key, fields...)
		p.PExpire(ctx, key, ttl)
	}
}

func heartbeat(status agent.Status, task string, at time.Time) []byte {
	out, _ := json.Marshal(struct { // of texts, which never fails
		Status agent.Status `json:"status"`
		Task   *string      `json:"task_id"`
		At     string       `json:"timestamp"`
	}{status, optional(task), stamp(at)})
	return out
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// beat shows a heartbeat, for a minute at least: the cycle knows the agent's interval.
const beat = `local left = redis.call('PTTL', KEYS[1])
if left < 60000 then left = 60000 end
return redis.call('SET', KEYS[1], ARGV[1], 'PX', left)`

// Beat implements [live.Mirror].
func (c *Client) Beat(ctx context.Context, b live.Heartbeat) error {
	return c.do(ctx, "show a heartbeat", c.o.Limit, func(ctx context.Context, r redis.UniversalClient) error {
		return r.Eval(ctx, beat, []string{c.key("agent:heartbeat", b.Agent)}, heartbeat(b.Status, b.Task, time.Now())).Err()
	})
}

// tell stores the position of the news and then publishes them, each after its channel. A Redis that refuses
// the position, because its memory is full for example, would publish them again with each cycle otherwise.
const tell = `redis.call('HSET', KEYS[1], 'events', ARGV[1], 'commands', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local refused
for i = 4, #ARGV, 2 do
  local told = redis.pcall('PUBLISH', ARGV[i], ARGV[i + 1])
  if type(told) == 'table' and told.err then refused = told end
end
return refused or 1`

// news returns what has happened: channels, each followed by its message. A subscriber may miss it: Redis keeps
// no message for those who are away.
func (c *Client) news(ws db.Workspace, n live.News) (out []any) {
	for channel, events := range map[string][]event.Event{"tasks:events": n.Tasks, "agents:events": n.Agents} {
		for _, e := range events {
			text, err := json.Marshal(map[string]any{
				"id": e.Cursor.String(), "kind": e.Kind, "subject": e.Subject, "trace_id": e.Trace, "data": e.Data, "created_at": stamp(e.CreatedAt),
			})
			if err == nil {
				out = append(out, c.key(channel, tag(ws)), text)
			}
		}
	}
	for _, done := range n.Commands {
		if text, err := json.Marshal(done); err == nil {
			out = append(out, c.key("coordinator:commands", tag(ws)), text)
		}
	}
	return out
}
