package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/backend"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/demo"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// checkLimit is the time limit of one check.
const checkLimit = 3 * time.Second

// checkFiles checks the SQLite file, its permissions and its integrity, without opening it for
// writing. It reports whether the file can be used.
func checkFiles(ctx context.Context, cfg app.Config) ([]finding, bool) {
	const name = "files"
	info, err := os.Stat(cfg.SQLitePath)
	if errors.Is(err, fs.ErrNotExist) {
		return []finding{warn(name, "`lanekeeper dev` or `lanekeeper migrate`", "there is no file %s yet", cfg.SQLitePath)}, false
	}
	if err != nil {
		return []finding{fail(name, "", err)}, false
	}
	findings := []finding{ok(name, "%s, for its owner alone", cfg.SQLitePath)}
	if open := info.Mode().Perm() & 0o077; open != 0 {
		findings[0] = warn(name, "chmod 600 "+cfg.SQLitePath, "%s has mode %o: others on this machine may read it",
			cfg.SQLitePath, info.Mode().Perm())
	}
	err = sqlite.Inspect(ctx, cfg.SQLitePath, true)
	_, foreign := errors.AsType[*sqlite.ForeignError](err)
	switch {
	case foreign:
		return []finding{fail(name, "point SQLITE_PATH to another file, which is made when it is missing", err)}, false
	case errors.Is(err, db.ErrCorrupt):
		return append(findings, fail("integrity",
			"run `lanekeeper dev`: it moves it aside, with its log; then restore a backup in its place, or run it again to begin anew", err)), false
	case err != nil:
		return []finding{fail(name, "give this user the right to it, or point SQLITE_PATH elsewhere",
			fmt.Errorf("read %s: %w", cfg.SQLitePath, err))}, false
	}
	return append(findings, ok("integrity", "SQLite finds no damage")), true
}

// checkLanes acquires and releases a lane, and compares the clocks of this machine and the
// database.
func checkLanes(ctx context.Context, d *db.DB) []finding {
	lanes, err := lane.New(d)
	if err != nil {
		return []finding{fail("lanes", "", err)}
	}
	request := lane.Request{
		Workspace: workspace.Default, Lane: lane.Name("doctor:" + rand.Text()), Holder: "doctor", TTL: 30 * time.Second,
	}
	asked := time.Now()
	hold, err := lanes.Acquire(ctx, request)
	answered := time.Now()
	if errors.Is(err, db.ErrReference) {
		return []finding{fail("lanes", "lanekeeper migrate", errors.New("there is no default workspace"))}
	}
	if err == nil {
		err = lanes.Release(ctx, hold)
	}
	if err != nil {
		return []finding{fail("lanes", hintFor(err), err)}
	}
	findings := []finding{ok("lanes", "one was taken and given back in %s", took(time.Since(asked)))}
	there := hold.Until().Add(-request.TTL)
	skew := there.Sub(asked.Add(answered.Sub(asked) / 2))
	if uncertain := answered.Sub(asked) / 2; skew.Abs() > maxSkew+uncertain {
		return append(findings, warn("clock", "let both machines follow a time server",
			"this machine's clock is %s off the database's, which decides", skew.Abs().Round(time.Millisecond)))
	}
	return append(findings, ok("clock", "within %s of the database's", took(skew.Abs()+answered.Sub(asked)/2)))
}

// maxSkew is the tolerated difference between the clocks. Nothing depends on it, but a larger one
// makes displayed times confusing.
const maxSkew = 2 * time.Second

func checkRedis(ctx context.Context, cfg app.Config) finding {
	if cfg.RedisURL == "" {
		return ok("valkey", "none is configured; it is optional")
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	if err := backend.Ping(ctx, cfg); err != nil {
		return fail("valkey", "start the server that REDIS_URL names, or unset REDIS_URL: nothing is lost without it", err)
	}
	return ok("valkey", "answers")
}

// checkModel sends the model a short request, which costs a few tokens.
func checkModel(ctx context.Context, cfg app.Config) finding {
	model, err := wire.NewModel(cfg, awsConfig)
	if err != nil {
		return fail("model", "correct LLM_PROVIDER, LLM_MODEL and the provider's key", err)
	}
	ctx, cancel := context.WithTimeout(ctx, modelPatience)
	defer cancel()
	resp, err := model.Generate(ctx, llm.Request{Messages: []llm.Message{{Role: llm.RoleUser,
		Text: "Are you there? Answer with one word."}}, MaxTokens: 100}, nil)
	if err != nil {
		return fail("model", modelAdvice(llm.ClassOf(err), cfg.LLMProvider), err)
	}
	if model.Name() == demo.Name {
		return ok("model", "the demo model answers: a script that needs no network, and says so in all it writes")
	}
	return ok("model", "%s of %s answers", cmp.Or(resp.Model, cfg.LLMModel), model.Name())
}

const modelPatience = 20 * time.Second

// modelAdvice returns how to repair a failure of the model.
func modelAdvice(class llm.ErrorClass, provider string) string {
	switch class {
	case llm.ClassAuthentication:
		return "check the key of " + provider + ", and that it may use LLM_MODEL"
	case llm.ClassBilling:
		return "the account at " + provider + " has no money or quota left"
	case llm.ClassBadRequest:
		return "check that LLM_MODEL is a model of " + provider
	case llm.ClassUnavailable, llm.ClassTimeout:
		return "check the network, and OPENAI_BASE_URL where it is set"
	}
	return "try again a little later"
}

// checkKey checks the key that encrypts secrets.
func checkKey(cfg app.Config) finding {
	const name = "key"
	if cfg.KMSKeyID != "" {
		return ok(name, "secrets are encrypted under a key in KMS; it is asked when one is used")
	}
	keys, err := secret.NewKeyFile(cfg.SecretKeyFile).Keys()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ok(name, "none yet; the first secret makes %s", cfg.SecretKeyFile)
	case err != nil:
		return fail(name, "put the key file right, or SECRET_KEY_FILE: without it no secret can be read", err)
	}
	return ok(name, "%s has %s, for its owner alone", cfg.SecretKeyFile, count(int64(len(keys)), "key"))
}

func checkToken(cfg app.Config) finding {
	const name = "token"
	if cfg.AdminToken != "" {
		return ok(name, "ADMIN_TOKEN is set")
	}
	path := tokenFile(cfg)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ok(name, "none yet; `lanekeeper dev` makes one")
	case err != nil:
		return fail(name, "", err)
	case info.Mode().Perm()&0o077 != 0:
		return warn(name, "chmod 600 "+path, "%s has mode %o: others on this machine may read it", path, info.Mode().Perm())
	}
	if _, err := adminToken(cfg); err != nil {
		return fail(name, "", err)
	}
	return ok(name, "in %s, for its owner alone", path)
}

// checkAddress reports whether the local runner could listen, or whether one listens already. In
// the latter case it checks whether that runner uses the database d; nil if the database can't be
// opened.
func checkAddress(ctx context.Context, cfg app.Config, d *db.DB) finding {
	const name = "address"
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Addr)
	if err == nil {
		_ = l.Close() // no connection was accepted
		return ok(name, "%s is free for `lanekeeper dev`", cfg.Addr)
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	if status, herr := health(ctx, cfg.Addr); herr == nil {
		if d == nil {
			return ok(name, "a Lanekeeper answers at http://%s: %s", cfg.Addr, status)
		}
		same, err := sharesDatabase(ctx, cfg, d)
		if err != nil {
			return fail(name, hintFor(err), fmt.Errorf("compare the database with the one of http://%s: %w", cfg.Addr, err))
		}
		if same {
			return ok(name, "a Lanekeeper answers at http://%s, over this database: %s", cfg.Addr, status)
		}
		return warn(name, "start this one elsewhere, with ADDR="+neighbour(cfg.Addr)+", or give both the same configuration",
			"a Lanekeeper answers at http://%s, but not over this database, or with another admin token", cfg.Addr)
	}
	return warn(name, "ADDR="+neighbour(cfg.Addr), "%s", err)
}

// sharesDatabase takes a lane here and asks the server at ADDR who holds it.
func sharesDatabase(ctx context.Context, cfg app.Config, d *db.DB) (bool, error) {
	token, err := adminToken(cfg)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // that server has generated its own token elsewhere
	}
	if err != nil {
		return false, err
	}
	lanes, err := lane.New(d)
	if err != nil {
		return false, err
	}
	request := lane.Request{
		Workspace: workspace.Default, Lane: lane.Name("doctor:" + rand.Text()), Holder: lane.Holder("doctor " + rand.Text()),
		TTL: 30 * time.Second,
	}
	hold, err := lanes.Acquire(ctx, request)
	if err != nil {
		return false, err
	}
	said, err := get(ctx, "http://"+cfg.Addr+"/api/v1/lanes/"+url.PathEscape(string(request.Lane))+"/why", token)
	return strings.Contains(said, string(request.Holder)), errors.Join(err, lanes.Release(ctx, hold))
}

// get returns the body of a server's response, whatever its status.
func get(ctx context.Context, address, token string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	return string(body), err
}

// health returns the health status of a server. It returns an error if the server is not a
// Lanekeeper.
func health(ctx context.Context, addr string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/health", nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var said struct{ Status string }
	err = json.NewDecoder(io.LimitReader(answer.Body, 64<<10)).Decode(&said)
	if err == nil && answer.Header.Get("X-Trace-Id") == "" || said.Status == "" {
		return "", fmt.Errorf("%s is no Lanekeeper", addr)
	}
	return clean(said.Status), err
}
