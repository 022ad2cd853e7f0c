package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/redact"
)

// target lists what the path of a request names, outermost first.
type target []struct{ noun, name string }

type targetKey struct{}

// targeted puts the target of a request's path into its context.
func (rt route) targeted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var named target
		noun := ""
		for part := range strings.SplitSeq(rt.path, "/") {
			wildcard, ok := strings.CutPrefix(part, "{")
			if !ok {
				noun = nounOf(part)
				continue
			}
			name := r.PathValue(strings.TrimSuffix(wildcard, "}"))
			if noun == "" { // the same thing, such as /failures/{kind}/{id}
				named[len(named)-1].name = name
				continue
			}
			named = append(named, struct{ noun, name string }{noun, name})
			noun = ""
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), targetKey{}, named)))
	})
}

// nounOf returns the singular noun for a segment of a path.
func nounOf(part string) string {
	switch part {
	case "agent-tasks":
		return "task"
	case "api-keys":
		return "API key"
	case "site-keys":
		return "site key"
	case "kill-switches":
		return "kill switch"
	case "outbox":
		return "message"
	}
	if many, ok := strings.CutSuffix(part, "ies"); ok {
		return many + "y"
	}
	return strings.TrimSuffix(part, "s")
}

// plainName matches an id or a name that is safe to repeat.
var plainName = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$`)

// missing returns the problem for something that does not exist. It names the thing and the
// workspace. It repeats a name or an id of the path only if that has the form of one and contains
// no known secret.
func (s *server) missing(ctx context.Context) *problem.Problem {
	what := "what the request names"
	named, _ := ctx.Value(targetKey{}).(target)
	for i, one := range named {
		part := "the " + one.noun
		if plainName().MatchString(one.name) && redact.From(ctx).Text(one.name) == one.name {
			part = fmt.Sprintf("%s %q", one.noun, one.name)
		}
		if what = part + " of " + what; i == 0 {
			what = part
		}
	}
	p := *notFound
	p.Detail = what + " is not in this workspace"
	if slug := s.slugOf(ctx, workspace(ctx)); slug != "" {
		p.Detail = fmt.Sprintf("%s is not in workspace %q", what, slug)
	}
	return &p
}

// slugOf returns a workspace's slug and caches it. It returns an empty text if the slug cannot be
// read.
func (s *server) slugOf(ctx context.Context, id db.Workspace) string {
	if known, ok := s.slugs.Load(id); ok {
		return known.(string)
	}
	ws, err := s.Workspaces.Get(ctx, id)
	if err != nil {
		return ""
	}
	s.slugs.Store(id, ws.Slug)
	return ws.Slug
}
