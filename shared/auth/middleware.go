package auth

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Require lets only requests with a valid token or session pass, the principal in
// their context. Others are refused as problem+json: 401, which says that the token
// is missing or invalid and nothing more; 403 where the caller does not belong in the
// workspace, or a page of another origin asks; 400 where several workspaces are named.
// unsure answers where a verifier could not tell.
func (a *Authenticator) Require(next http.Handler, unsure func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return a.RequireOr(next, func(w http.ResponseWriter, r *http.Request, err error) {
		if !Refuse(w, r, err) {
			unsure(w, r, err)
		}
	})
}

// Refuse answers why a request has no principal, where err says so.
func Refuse(w http.ResponseWriter, r *http.Request, err error) bool {
	i := slices.IndexFunc(refusals, func(known refusal) bool { return errors.Is(err, known.err) })
	if i >= 0 {
		refusals[i].write(w, r)
	}
	return i >= 0
}

// RequireOr is Require where otherwise answers all that do not pass.
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

// Admit lets every request pass, with the principal in its context where the
// token is valid.
func (a *Authenticator) Admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, _, err := a.principal(r); err == nil {
			r = r.WithContext(With(r.Context(), p))
		}
		next.ServeHTTP(w, r)
	})
}

// principal is who sends a request, and the cookie that goes on with the session
// where it is time for one.
func (a *Authenticator) principal(r *http.Request) (p Principal, renewed *http.Cookie, err error) {
	token, err := bearer(r.Header)
	switch {
	case err == nil:
		p, err = a.Authenticate(r.Context(), token)
	case errors.Is(err, ErrMissing) && a.sessions != nil:
		p, renewed, err = a.sessions.verify(r)
	}
	if err != nil {
		return Principal{}, nil, err
	}
	if p.Kind == Site && len(p.Origins) > 0 && !slices.Contains(p.Origins, r.Header.Get("Origin")) {
		return Principal{}, nil, ErrOrigin
	}
	asked := r.Header.Values("X-Workspace-Id")
	if len(asked) > 1 {
		return Principal{}, nil, ErrWorkspace
	}
	if path := r.PathValue("workspaceId"); path != "" { // what the path names counts before the header, where they belong there
		if there, err := p.In(path); err == nil {
			return there, renewed, nil
		}
	}
	p, err = p.In(strings.Join(asked, ""))
	return p, renewed, err
}

// bearer is the token of an Authorization header. Two headers are none we would
// choose between.
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

// refusal is how an error is answered.
type refusal struct {
	err       error
	status    int
	code      string
	challenge string
}

var refusals = []refusal{
	{ErrMissing, http.StatusUnauthorized, "missing_token", "Bearer"},
	{ErrInvalid, http.StatusUnauthorized, "invalid_token", `Bearer error="invalid_token"`},
	{ErrForbidden, http.StatusForbidden, "forbidden", ""},
	{ErrOrigin, http.StatusForbidden, "cross_origin", ""},
	{ErrWorkspace, http.StatusBadRequest, "workspace_required", ""},
}

// write answers in the shape of every problem of the API.
func (f refusal) write(w http.ResponseWriter, r *http.Request) {
	id, _ := trace.From(r.Context())
	body, _ := json.Marshal(struct { // strings always encode
		Type   string   `json:"type"`
		Title  string   `json:"title"`
		Status int      `json:"status"`
		Detail string   `json:"detail"`
		Code   string   `json:"code"`
		Trace  trace.ID `json:"traceId,omitempty"`
	}{"urn:lanekeeper:problem:" + f.code, http.StatusText(f.status), f.status, f.err.Error(), f.code, id})
	if f.challenge != "" {
		w.Header().Set("WWW-Authenticate", f.challenge)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(f.status)
	_, _ = w.Write(append(body, '\n'))
}
