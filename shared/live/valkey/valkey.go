// Package valkey is the live view of package live on a Redis or a Valkey, alone or as a cluster.
//
// Every call has a short limit. After a call that the Redis did not answer, or that it refused as it refuses
// all calls now, a circuit stays open for a time that grows from
// one to thirty seconds; then one call tries again. So a Redis that is dead or frozen costs a caller the
// limit of one call now and then. The first failure, the recovery and the
// first refusal of one command are logged.
//
// # Keys
//
// The namespace is lk. A key with {ws} has the workspace's id in braces: a cluster keeps these keys of a
// workspace on one node, where each cycle of the coordinator replaces them in one transaction.
//
//	lk:tasks:pending:{ws}                 sorted set: the first 1,000 tasks that wait, by priority, then age
//	lk:tasks:active:{ws}                  set of task:session
//	lk:coordinator:recovery_queue:{ws}    list of tasks that will be tried again
//	lk:usage:current:{ws}                 hash: total_tokens, total_cost_usd, last_updated; of the workspace's budget, else of today
//	lk:usage:alerts:{ws}                  list of JSON: task_id, level, percent_used, message
//	lk:live:position:{ws}                 hash: up to where news was published
//	lk:agent:heartbeat:AGENT              JSON: status, task_id, timestamp; for two intervals, at least 60 s
//	lk:agent:status:AGENT                 hash: status, current_task, last_heartbeat
//	lk:agent:tasks:AGENT                  hash: task to the time of its assignment
//	lk:session:context:SESSION            hash: workspace_id, agent_id, task_id, started_at
//	lk:usage:task:TASK                    hash: allocated, consumed, remaining, agents (a JSON array)
//	lk:coordinator:stale_agents           sorted set of agents, by when a cycle last found them stale (ms)
//	lk:task:assign_lock:TASK              the token of who is about to assign it, for 5 s
//	lk:lock:{ws}:NAME                     the token of another lock's holder
//	lk:result:TASK:ATTEMPT                JSON: workspace_id, result; for as long as the workspace keeps results
//
// Channels: lk:tasks:events:{ws}, lk:agents:events:{ws} and lk:coordinator:commands:{ws}. Their messages
// are JSON. A key that no cycle renews expires after ten minutes.
package valkey

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lanekeeper/lanekeeper/shared/live"
)

// Options configure a client.
type Options struct {
	URL       string        // redis://user:password@host:6379/0, or rediss://
	Namespace string        // empty: lk
	Limit     time.Duration // of one call; zero: 250 ms. Publishing a view may take four times as long.
	Log       *slog.Logger
	// Failed is called for each call that failed, but not for a refusal of one command; nil: nobody counts.
	Failed func()
}

const (
	namespace    = "lk"
	defaultLimit = 250 * time.Millisecond
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// Client is a Redis. It connects at the first call. It is safe for concurrent use.
type Client struct {
	o       Options
	options *redis.Options

	mu     sync.Mutex
	redis  redis.UniversalClient // nil before the first call that succeeded
	pause  time.Duration         // zero: the circuit is closed
	until  time.Time             // the circuit is open
	closed bool

	refused bool // a refusal of one command was told
}

var (
	_ live.State  = (*Client)(nil)
	_ live.Mirror = (*Client)(nil)
)

// ErrURL means that a URL is not one of a Redis. It never repeats the URL, which may have a password.
var ErrURL = errors.New("it is not a URL of a Redis (redis://user:password@host:6379/0)")

// New returns a client. It does not connect.
func New(o Options) (*Client, error) {
	options, err := redis.ParseURL(o.URL)
	if err != nil {
		return nil, ErrURL
	}
	if o.Namespace == "" {
		o.Namespace = namespace
	}
	if o.Limit == 0 {
		o.Limit = defaultLimit
	}
	options.Protocol, options.DisableIdentity = 2, true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	options.MaxRetries, options.MinRetryBackoff, options.DialerRetries = 1, -1, 1
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout, options.PoolTimeout = o.Limit, 4*o.Limit, o.Limit, o.Limit
	options.ContextTimeoutEnabled = true
	options.PoolSize, options.ConnMaxIdleTime = 4, 5*time.Minute
	quiet()
	return &Client{o: o, options: options}, nil
}

// quiet turns off the library's own log, which only repeats its errors. The switch applies to all of it.
var quiet = sync.OnceFunc(func() { redis.SetLogger(silence{}) })

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// Close closes the connections.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.redis == nil {
		return nil
	}
	err := c.redis.Close()
	c.redis = nil
	return err
}

// Check asks the Redis whether it is there, also while the circuit is open.
func (c *Client) Check(ctx context.Context) error {
	return c.call(ctx, 4*c.o.Limit, func(ctx context.Context, r redis.UniversalClient) error { return r.Ping(ctx).Err() })
}

// do makes a call, unless the circuit is open: then it returns [live.ErrDown].
func (c *Client) do(ctx context.Context, what string, limit time.Duration, fn func(context.Context, redis.UniversalClient) error) error {
	if !c.may() {
		return live.ErrDown
	}
	if err := c.call(ctx, limit, fn); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// may reports whether a call may be made. Of those that come once the circuit's time is over, one may.
func (c *Client) may() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pause == 0 {
		return true
	}
	now := time.Now().Round(0) // a freeze counts
	if now.Before(c.until) {
		return false
	}
	c.until = now.Add(c.pause) // the others wait for what comes of this one
	return true
}

func (c *Client) call(ctx context.Context, limit time.Duration, fn func(context.Context, redis.UniversalClient) error) error {
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, err := c.connect(inner)
	if err == nil {
		err = fn(inner, r)
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("ask the live view: %w", ctx.Err()) // it says nothing about the Redis
	}
	c.note(ctx, err)
	return err
}

// connect returns the client of a single server or of a cluster, whichever is there.
func (c *Client) connect(ctx context.Context) (redis.UniversalClient, error) {
	c.mu.Lock()
	r, closed := c.redis, c.closed
	c.mu.Unlock()
	if r != nil || closed {
		return r, closedError(closed)
	}
	single := redis.NewClient(c.options)
	_, err := single.ClusterInfo(ctx).Result()
	made := redis.UniversalClient(single)
	if alone(err) {
		err = nil
	} else if err == nil {
		made = c.cluster()
		err = single.Close()
	}
	if err != nil {
		return nil, errors.Join(err, made.Close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.redis != nil || c.closed { // another call was faster
		return c.redis, errors.Join(closedError(c.closed), made.Close())
	}
	c.redis = made
	return made, nil
}

// alone reports whether the answer to CLUSTER INFO is that of a single server: it has no cluster, does not
// know the command or does not permit it. A server that refuses every command now says nothing of that.
func alone(err error) bool { return err != nil && !unusable(err) }

// unusable reports whether a call failed because the Redis did not answer, or because it refuses every call
// now. Any other refusal concerns the one command: the next may do.
func unusable(err error) bool {
	refusal := redis.Error(nil)
	return !errors.As(err, &refusal) || slices.ContainsFunc(
		[]string{"LOADING", "NOAUTH", "WRONGPASS", "ERR max number of clients", "CLUSTERDOWN", "MASTERDOWN", "READONLY"},
		func(prefix string) bool { return strings.HasPrefix(refusal.Error(), prefix) })
}

// code returns the first word of a refusal. The others may repeat what the command had.
func code(err error) string {
	refusal := redis.Error(nil)
	if !errors.As(err, &refusal) {
		return ""
	}
	first, _, _ := strings.Cut(refusal.Error(), " ")
	return first
}

func closedError(closed bool) error {
	if closed {
		return redis.ErrClosed
	}
	return nil
}

func (c *Client) cluster() *redis.ClusterClient {
	o := c.options
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{o.Addr}, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig, Protocol: o.Protocol,
		DisableIdentity: true, MaintNotificationsConfig: o.MaintNotificationsConfig, MaxRetries: o.MaxRetries, MinRetryBackoff: o.MinRetryBackoff,
		DialerRetries: o.DialerRetries, DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		PoolTimeout: o.PoolTimeout, ContextTimeoutEnabled: true, PoolSize: o.PoolSize, ConnMaxIdleTime: o.ConnMaxIdleTime,
	})
}

// note opens or closes the circuit after a call, and logs when that changes.
func (c *Client) note(ctx context.Context, err error) {
	gone := err != nil && unusable(err)
	if gone && c.o.Failed != nil {
		c.o.Failed()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.pause
	if err != nil && !gone {
		if c.o.Log.DebugContext(ctx, "the live view refused a command", "error", err); !c.refused {
			c.refused = true
			c.o.Log.WarnContext(ctx, "the live view refused a command; other refusals are logged for debugging alone", "error", code(err))
		}
	}
	if !gone {
		if c.pause = 0; was > 0 {
			c.o.Log.InfoContext(ctx, "the live view can be reached again")
		}
		return
	}
	c.pause = min(max(2*was, firstPause), longestPause)
	c.until = time.Now().Round(0).Add(c.pause)
	if was == 0 {
		c.o.Log.WarnContext(ctx, "the live view can't be reached: nothing is lost, and the database does its part", "error", err)
	}
}

// key returns a key of the namespace.
func (c *Client) key(parts ...string) string { return c.o.Namespace + ":" + strings.Join(parts, ":") }
