package auth

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Refuse writes the answer for an error that means that a request has no principal. It returns
// false, and writes nothing, for any other error.
func Refuse(w http.ResponseWriter, r *http.Request, err error) bool {
	p := Refusal(err)
	if p == nil {
		return false
	}
	id, _ := trace.From(r.Context())
	p.Write(w, id)
	return true
}

// RequireOr passes only requests with a valid token or session, with the principal in their context.
// otherwise answers the others, and those that a verifier could not decide on.
func (a *Authenticator) RequireOr(next http.Handler, otherwise func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, renewed, err := a.principal(r)
		if err != nil {
			otherwise(w, r, err)
			return
		}
		if renewed != nil {
			http.SetCookie(w, renewed)
		}
		next.ServeHTTP(w, r.WithContext(With(r.Context(), p)))
	})
}

// AdmitOr passes every request that refused does not answer. If the token is valid, the
// principal is in the request's context; if not, refused is called with the reason and
// returns whether it has answered the request.
func (a *Authenticator) AdmitOr(next http.Handler, refused func(http.ResponseWriter, *http.Request, error) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _, err := a.principal(r)
		switch {
		case err == nil:
			r = r.WithContext(With(r.Context(), p))
		case refused(w, r, err):
			return
		}
		next.ServeHTTP(w, r)
	})
}

// limit is the longest time for finding out who sends a request. A database that gives no response within
// this time counts as down.
const limit = 10 * time.Second

// principal returns the sender of a request, and the renewed session cookie if it is time for one.
func (a *Authenticator) principal(r *http.Request) (p Principal, renewed *http.Cookie, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	token, err := bearer(r.Header)
	switch {
	case err == nil:
		p, err = a.Authenticate(ctx, token)
	case errors.Is(err, ErrMissing) && a.sessions != nil:
		p, renewed, err = a.sessions.verify(r.WithContext(ctx))
	}
	if err != nil {
		return Principal{}, nil, err
	}
	if p.Kind == Site && !p.opens(r) {
		return Principal{}, nil, ErrSite
	}
	asked := r.Header.Values("X-Workspace-Id")
	if len(asked) > 1 {
		return Principal{}, nil, ErrWorkspace
	}
	// The path's workspace takes precedence over the header, if the principal belongs to it.
	if path := r.PathValue("workspaceId"); path != "" {
		if there, err := p.In(path); err == nil {
			return there, renewed, nil
		}
	}
	p, err = p.In(strings.Join(asked, ""))
	return p, renewed, err
}

// opens reports whether a site's key names the origin of the page that sends a request. A key without
// origins is for any page. A page of our own origin sends no Origin header with a GET.
func (p Principal) opens(r *http.Request) bool {
	if len(p.Origins) == 0 {
		return true
	}
	sent := r.Header.Values("Origin")
	if len(sent) == 0 && r.Header.Get("Sec-Fetch-Site") == "same-origin" {
		return slices.Contains(p.Origins, "https://"+r.Host) || slices.Contains(p.Origins, "http://"+r.Host)
	}
	return len(sent) == 1 && slices.Contains(p.Origins, sent[0])
}

// bearer returns the token of the Authorization header. Two such headers are invalid: we do not
// choose one.
func bearer(h http.Header) (string, error) {
	values := h.Values("Authorization")
	if len(values) == 0 {
		return "", ErrMissing
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return "", ErrInvalid
	}
	return strings.Trim(token, " "), nil
}

// refusals are the answers to the errors of requests without a principal.
var refusals = []struct {
	err    error
	answer *problem.Problem
}{
	{ErrMissing, problem.New(http.StatusUnauthorized, "missing_token", ErrMissing.Error()).With("WWW-Authenticate", "Bearer")},
	{ErrInvalid, problem.New(http.StatusUnauthorized, "invalid_token", ErrInvalid.Error()).With("WWW-Authenticate",
		`Bearer error="invalid_token"`)},
	{ErrForbidden, problem.New(http.StatusForbidden, "forbidden", ErrForbidden.Error())},
	{ErrSite, problem.New(http.StatusForbidden, "cross_origin",
		"the site key does not name the origin of this page: bin/lanekeeper site-keys edit changes its origins")},
	{ErrOrigin, problem.New(http.StatusForbidden, "cross_origin", ErrOrigin.Error())},
	{ErrWorkspace, problem.New(http.StatusBadRequest, "workspace_required", ErrWorkspace.Error())},
}
