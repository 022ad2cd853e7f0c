package kms_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/secret/kms"
)

func TestMain(m *testing.M) {
	dbtest.Main(m,
		// the SDK's connections to the fakes are idle until they time out
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

var place = secret.Place{Workspace: "0190D0A8-0000-7000-8000-000000000001", Table: "secrets", Column: "sealed", Row: "github"}

func TestSealAndOpen(t *testing.T) {
	f := newFake(t)
	s := secret.NewSealer(kms.New(alias, f.config))
	sealed, err := s.Seal(t.Context(), place, secret.NewValue("hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	if id, err := secret.KeyOf(sealed); id != firstKey || err != nil {
		t.Errorf("sealed under %q, %v: not the key the alias stands for", id, err)
	}
	if v, err := s.Open(t.Context(), place, sealed); err != nil || v.Reveal() != "hunter2" {
		t.Errorf("%v", err)
	}
	want := map[string]string{"workspace": "0190d0a8-0000-7000-8000-000000000001", "table": "secrets", "column": "sealed", "row": "github"}
	for i, c := range f.since(0) {
		if c.operation != []string{"Encrypt", "Decrypt"}[i] || c.keyID != []string{alias, firstKey}[i] || !maps.Equal(c.context, want) {
			t.Errorf("%+v", c)
		}
	}
	other := place
	other.Row = "gitlab"
	if _, err := s.Open(t.Context(), other, sealed); !errors.Is(err, secret.ErrDamaged) {
		t.Errorf("in another row: %v", err)
	}
}

func TestEachBitCounts(t *testing.T) {
	f := newFake(t)
	s := secret.NewSealer(kms.New(alias, f.config))
	sealed, err := s.Seal(t.Context(), place, secret.NewValue("hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealed {
		bit := byte(1) << (i % 8)
		sealed[i] ^= bit
		if v, err := s.Open(t.Context(), place, sealed); !errors.Is(err, secret.ErrDamaged) && !errors.Is(err, secret.ErrNoKey) || v.Reveal() != "" {
			t.Errorf("byte %d: %v", i, err)
		}
		sealed[i] ^= bit
	}
}

func TestNothingIsAskedBeforeItIsNeeded(t *testing.T) {
	asked := 0
	f := newFake(t)
	k := kms.New(alias, func() (aws.Config, error) {
		if asked++; asked == 1 {
			return aws.Config{}, errors.New("no region")
		}
		return f.config()
	})
	if asked != 0 || len(f.since(0)) != 0 {
		t.Fatal("asked at once")
	}
	if _, err := k.Current(t.Context()); !errors.Is(err, secret.ErrNoKey) || !strings.Contains(err.Error(), "no region") {
		t.Errorf("%v", err)
	}
	for range 3 { // failures are tried again, results are kept
		if id, err := k.Current(t.Context()); id != firstKey || err != nil {
			t.Errorf("%q, %v", id, err)
		}
	}
	if asked != 2 {
		t.Errorf("configured %d times", asked)
	}
}

func TestFailures(t *testing.T) {
	for kind, c := range map[string]struct {
		status int
		want   error
	}{
		"InvalidCiphertextException": {400, secret.ErrDamaged},
		"IncorrectKeyException":      {400, secret.ErrDamaged},
		"NotFoundException":          {400, secret.ErrNoKey},
		"DisabledException":          {400, secret.ErrNoKey},
		"KMSInvalidStateException":   {400, secret.ErrNoKey},
		"AccessDeniedException":      {400, secret.ErrNoKey},
		"KeyUnavailableException":    {500, secret.ErrUnavailable},
		"KMSInternalException":       {500, secret.ErrUnavailable},
		"DependencyTimeoutException": {503, secret.ErrUnavailable},
		"ThrottlingException":        {400, secret.ErrUnavailable},
		"SomethingNew":               {400, secret.ErrUnavailable},
	} {
		t.Run(kind, func(t *testing.T) {
			f := newFake(t)
			s := secret.NewSealer(kms.New(alias, f.config))
			sealed, err := s.Seal(t.Context(), place, secret.NewValue("hunter2"))
			if err != nil {
				t.Fatal(err)
			}
			f.set(func() { f.fail = func(string) (int, string) { return c.status, kind } })
			_, err = s.Open(t.Context(), place, sealed)
			_, sealErr := s.Seal(t.Context(), place, secret.NewValue("hunter3"))
			for _, err := range []error{err, sealErr} {
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), kind) || strings.Contains(err.Error(), "hunter") {
					t.Errorf("%v, want %v", err, c.want)
				}
			}
		})
	}
}

func TestAServiceThatDoesNotAnswer(t *testing.T) {
	f := newFake(t)
	f.url = "http://127.0.0.1:1"
	if _, err := kms.New(alias, f.config).Current(t.Context()); !errors.Is(err, secret.ErrUnavailable) {
		t.Errorf("no server: %v", err)
	}
	reached := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the caller has left
		close(reached)
		<-r.Context().Done()
	}))
	defer server.Close()
	f.url = server.URL
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-reached; cancel() }()
	if _, err := kms.New(alias, f.config).Current(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// The alias points to another key: new values are sealed under it at once. Older values stay
// readable and are rotated to it.
func TestRotation(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		f := newFake(t)
		s, err := secret.New(e.DB, kms.New(alias, f.config))
		if err != nil {
			t.Fatal(err)
		}
		names := []string{"a", "b", "c"}
		for _, name := range names {
			if _, err := s.Put(t.Context(), e.Workspace, name, secret.NewValue("hunter-"+name), "me"); err != nil {
				t.Fatal(err)
			}
		}
		resolve := func() {
			t.Helper()
			for _, name := range names {
				if v, err := s.Resolve(t.Context(), e.Workspace, name); err != nil || v.Reveal() != "hunter-"+name {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		f.set(func() { f.aliases[alias] = secondKey })
		resolve()
		for _, left := range []int{1, 0} {
			r, err := s.Rotate(t.Context(), e.Workspace, 2)
			if err != nil || r.Left != left {
				t.Errorf("%+v, %v", r, err)
			}
			resolve()
		}
		f.set(func() { f.keys[firstKey] = nil })
		resolve()
		before := len(f.since(0))
		if r, err := s.Rotate(t.Context(), e.Workspace, 10); err != nil || r.Resealed != 0 || !r.Done() {
			t.Errorf("%+v, %v", r, err)
		}
		if calls := f.since(before); len(calls) != 1 || calls[0].context["purpose"] != "probe" {
			t.Errorf("%+v", calls)
		}
	})
}
