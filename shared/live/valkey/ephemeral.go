package valkey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/live"
)

// tag is a workspace as the part of a key by which a cluster places it.
func tag(ws db.Workspace) string { return "{" + string(ws) + "}" }

// lockKey is the key of a lock. Those of assignments are the contract's own; ids of tasks are unique.
func (c *Client) lockKey(ws db.Workspace, l live.Lock) string {
	if strings.HasPrefix(l.Name, live.AssignLock("")) {
		return c.key(l.Name)
	}
	return c.key("lock", tag(ws), l.Name)
}

const (
	take = `local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`
	release = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`
)

// TryLock implements [live.Locks].
func (c *Client) TryLock(ctx context.Context, ws db.Workspace, l live.Lock, ttl time.Duration) (got bool, err error) {
	if err := l.CheckFor(ttl); err != nil {
		return false, err
	}
	err = c.do(ctx, "take a lock", c.o.Limit, func(ctx context.Context, r redis.UniversalClient) error {
		got, err = r.Eval(ctx, take, []string{c.lockKey(ws, l)}, l.Token, ttl.Milliseconds()).Bool()
		return err
	})
	return got && err == nil, err
}

// ReleaseLock implements [live.Locks].
func (c *Client) ReleaseLock(ctx context.Context, ws db.Workspace, l live.Lock) (got bool, err error) {
	if err := l.Check(); err != nil {
		return false, err
	}
	err = c.do(ctx, "release a lock", c.o.Limit, func(ctx context.Context, r redis.UniversalClient) error {
		got, err = r.Eval(ctx, release, []string{c.lockKey(ws, l)}, l.Token).Bool()
		return err
	})
	return got && err == nil, err
}

// stored is a result with the workspace that may read it.
type stored struct {
	Workspace db.Workspace `json:"workspace_id"`
	Result    string       `json:"result"` // JSON as it was given
}

func (c *Client) resultKey(of live.Attempt) string {
	return c.key("result", strings.ToLower(of.Task), strconv.Itoa(of.Number))
}

// SetResult implements [live.Results].
func (c *Client) SetResult(ctx context.Context, ws db.Workspace, of live.Attempt, result json.RawMessage, ttl time.Duration) error {
	ttl, err := live.CheckResult(of, result, ttl)
	if err != nil {
		return err
	}
	value, err := json.Marshal(stored{ws, string(result)})
	if err != nil {
		return fmt.Errorf("store a result: %w", err)
	}
	return c.do(ctx, "store a result", c.o.Limit, func(ctx context.Context, r redis.UniversalClient) error {
		return r.Set(ctx, c.resultKey(of), value, ttl).Err()
	})
}

// GetResult implements [live.Results].
func (c *Client) GetResult(ctx context.Context, ws db.Workspace, of live.Attempt) (json.RawMessage, bool, error) {
	if err := of.Check(); err != nil {
		return nil, false, err
	}
	var value []byte
	err := c.do(ctx, "read a result", c.o.Limit, func(ctx context.Context, r redis.UniversalClient) (err error) {
		value, err = r.Get(ctx, c.resultKey(of)).Bytes()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	var s stored
	if err != nil || value == nil || json.Unmarshal(value, &s) != nil || s.Workspace != ws {
		return nil, false, err // what somebody else wrote there is no result
	}
	return json.RawMessage(s.Result), true, nil
}
