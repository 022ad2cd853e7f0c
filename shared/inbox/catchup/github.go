package catchup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/outbound"
)

const (
	public     = "https://api.github.com"
	perPage    = 100
	maxPage    = 512 << 10 // bytes
	maxCursor  = 500
	maxGUID    = 64
	callLimit  = 8 * time.Second
	apiVersion = "2022-11-28"
)

// tried is a try of GitHub to deliver.
type tried struct {
	ID          int64     `json:"id"`
	GUID        string    `json:"guid"` // X-GitHub-Delivery: the same for all tries of a delivery
	DeliveredAt time.Time `json:"delivered_at"`
	StatusCode  int       `json:"status_code"`
}

// final reports whether another try would come to the same end: its content was refused.
func (t tried) final() bool {
	switch t.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return true
	}
	return false
}

// foreign reports whether GitHub gives no delivery such ids.
func (t tried) foreign() bool {
	return t.ID < 1 || t.GUID == "" || len(t.GUID) > maxGUID || strings.ContainsFunc(t.GUID, odd)
}

// odd reports whether no id of GitHub has such a character.
func odd(r rune) bool {
	return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// page is one page of what GitHub has sent, the latest first.
type page struct {
	tries []tried
	next  string // cursor; empty: it is the last
}

// refusedError says that GitHub has refused a call. Its text has no word of GitHub's.
type refusedError struct {
	status     int
	badRequest bool
	wait       time.Duration // that GitHub wants; 0: none
}

// everything reports whether the refusal is not about the one delivery that the call named.
func (e *refusedError) everything() bool {
	return e.status == http.StatusUnauthorized || e.status == http.StatusForbidden || e.status == http.StatusTooManyRequests
}

func (e *refusedError) Error() string {
	switch e.status {
	case http.StatusUnauthorized:
		return "GitHub does not accept the token: give the secret one that may read and write the repository's webhooks"
	case http.StatusForbidden, http.StatusTooManyRequests:
		if e.wait > 0 {
			return "GitHub has answered as many calls as it does for the token: it is asked again later"
		}
		return "GitHub does not allow the token to see the webhook: it needs to read and write the repository's webhooks"
	case http.StatusNotFound:
		return "GitHub knows no such webhook, or does not show it to the token: look at owner, repo and hookId"
	}
	return fmt.Sprintf("GitHub has answered with status %d", e.status)
}

// page reads a page of what GitHub has sent.
func (l *look) page(ctx context.Context, cursor string) (page, error) {
	query := url.Values{"per_page": {strconv.Itoa(perPage)}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	answer, err := l.call(ctx, http.MethodGet, "?"+query.Encode())
	if err != nil {
		return page{}, err
	}
	defer answer.Body.Close() //nolint:errcheck // nothing is left to be read
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxPage+1))
	if err != nil {
		return page{}, fmt.Errorf("GitHub's answer broke off: %w", err)
	}
	var p page
	if len(raw) > maxPage || json.Unmarshal(raw, &p.tries) != nil {
		return page{}, errors.New("GitHub's answer is no list of deliveries")
	}
	p.tries = p.tries[:min(len(p.tries), perPage)]
	if p.next = nextOf(answer.Header.Values("Link")); p.next == cursor {
		p.next = ""
	}
	return p, nil
}

// attempt has GitHub send a delivery again.
func (l *look) attempt(ctx context.Context, id int64) error {
	answer, err := l.call(ctx, http.MethodPost, "/"+strconv.FormatInt(id, 10)+"/attempts")
	if err != nil {
		return err
	}
	_ = answer.Body.Close() // it says nothing
	return nil
}

// call makes one call about the deliveries of the webhook. The caller closes the answer's body.
func (l *look) call(ctx context.Context, method, path string) (*http.Response, error) {
	base := l.API
	if base == "" {
		base = public
	}
	h := l.Hook
	address := fmt.Sprintf("%s/repos/%s/%s/hooks/%d/deliveries%s", base, url.PathEscape(h.Owner), url.PathEscape(h.Repo), h.ID, path)
	r, err := http.NewRequestWithContext(outbound.WithTimeout(ctx, callLimit), method, address, http.NoBody)
	if err != nil {
		return nil, errors.New("its repository makes no address")
	}
	r.Header.Set("Accept", "application/vnd.github+json")
	r.Header.Set("Authorization", "Bearer "+l.token.Reveal())
	r.Header.Set("X-GitHub-Api-Version", apiVersion)
	r.Header.Set("User-Agent", "lanekeeper")
	answer, err := l.Do(r)
	if err != nil {
		return nil, fmt.Errorf("call GitHub: %w", err)
	}
	if answer.StatusCode >= 200 && answer.StatusCode < 300 {
		return answer, nil
	}
	_ = answer.Body.Close()
	e := &refusedError{status: answer.StatusCode, wait: waitOf(answer.Header, l.Now)}
	e.badRequest = e.status == http.StatusBadRequest || e.status == http.StatusGone || e.status == http.StatusUnprocessableEntity
	return nil, e
}

// waitOf is how long GitHub wants not to be called.
func waitOf(h http.Header, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(h.Get("Retry-After"), 10, 32); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	at, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64)
	if h.Get("X-RateLimit-Remaining") != "0" || err != nil || at < 0 || at > 1<<40 {
		return 0
	}
	return max(time.Unix(at, 0).Sub(now), time.Second)
}

// nextOf is the cursor of the next page. It follows no other part of the link.
func nextOf(links []string) string {
	for link := range strings.SplitSeq(strings.Join(links, ","), ",") {
		target, about, _ := strings.Cut(link, ";")
		if !strings.Contains(about, `rel="next"`) {
			continue
		}
		u, err := url.Parse(strings.Trim(strings.TrimSpace(target), "<>"))
		if err != nil {
			return ""
		}
		cursor := u.Query().Get("cursor")
		if len(cursor) > maxCursor || strings.ContainsFunc(cursor, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return ""
		}
		return cursor
	}
	return ""
}
