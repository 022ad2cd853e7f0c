package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

func TestSecretURL(t *testing.T) {
	for _, c := range []struct{ secret, base, want string }{
		{"postgres://u:p@h/d\n", "", "postgres://u:p@h/d"},
		{"postgresql://u:p@h/d", "postgres://other/d", "postgresql://u:p@h/d"},
		{`{"engine":"postgres","username":"u","password":"p/@:?#","host":"h","port":5433,"dbname":"d","dbInstanceIdentifier":"x"}`, "",
			"postgres://u:p%2F%40%3A%3F%23@h:5433/d"},
		{`{"engine":"aurora-postgresql","username":"u","password":"p","host":"h","port":"5433"}`, "", "postgres://u:p@h:5433/postgres"},
		{`{"username":"u","password":"p","host":"::1","port":null}`, "", "postgres://u:p@[::1]:5432/postgres"},
		{`{"username":"u","password":"p"}`, "postgres://h:6543/d?sslrootcert=/x.pem", "postgres://u:p@h:6543/d?sslrootcert=/x.pem"},
		{`{"username":"u","password":"p","host":"h"}`, "postgres://old@proxy/d", "postgres://u:p@proxy/d"},
		{`{"username":"u","password":"p","host":"h","dbname":"e"}`, "postgres:///d?sslrootcert=/x.pem", "postgres://u:p@h:5432/d?sslrootcert=/x.pem"},
	} {
		got, err := secretURL(c.secret, c.base)
		if err != nil || got != c.want {
			t.Errorf("%s beside %q: %q, %v", c.secret, c.base, got, err)
			continue
		}
		if u, err := url.Parse(got); err != nil || u.User == nil {
			t.Errorf("%q: %v", got, err)
		}
	}
}

func TestSecretURLRefuses(t *testing.T) {
	for _, c := range []struct{ secret, base string }{
		{"", ""},
		{"hunter2", ""},
		{`{"username":"u","password":"hunter2"}`, ""},
		{`{"username":"u","password":"hunter2"}`, "host=h dbname=d"},
		{`{"password":"hunter2","host":"h"}`, ""},
		{`{"username":"u","host":"h"}`, ""},
		{`{"username":"u","password":"hunter2","host":"h","engine":"mysql"}`, ""},
		{`{"username":"u","password":"hunter2","host":"h","port":"x"}`, ""},
		{`["hunter2"]`, ""},
		{"mysql://u:hunter2@h/d", ""},
	} {
		got, err := secretURL(c.secret, c.base)
		if _, ok := errors.AsType[*SecretError](err); !ok || got != "" || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %q, %v", c.secret, got, err)
		}
	}
}

// awsAt points the SDK at a server.
func awsAt(t *testing.T, h http.HandlerFunc) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_LAMBDA": srv.URL, "AWS_ENDPOINT_URL_SECRETS_MANAGER": srv.URL,
		"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", "AWS_SESSION_TOKEN": "session",
	} {
		t.Setenv(name, value)
	}
}

func TestReadSecret(t *testing.T) {
	status, answer := http.StatusOK, `{"SecretString":"postgres://u:hunter2@h/d"}`
	awsAt(t, func(w http.ResponseWriter, r *http.Request) {
		var in struct{ SecretID string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.SecretID != secretID || r.Header.Get("X-Amz-Security-Token") != "session" {
			t.Errorf("asked for %+v with %v, %v", in, r.Header, err)
		}
		w.Header().Set("Connection", "close")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	})
	if got, err := readSecret(t.Context(), secretID); err != nil || got != "postgres://u:hunter2@h/d" {
		t.Errorf("got %q, %v", got, err)
	}
	status, answer = http.StatusBadRequest, `{"__type":"AccessDeniedException","Message":"User x may not"}`
	_, err := readSecret(t.Context(), secretID)
	if bad, ok := errors.AsType[*SecretError](err); !ok || !strings.HasPrefix(bad.Problem, "the secret can't be read (AccessDeniedException)") {
		t.Errorf("got %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = readSecret(gone, secretID)
	if bad, ok := errors.AsType[*SecretError](err); !ok || !strings.HasPrefix(bad.Problem, "Secrets Manager can't be reached") || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// rotating returns a beat in a sandbox. The secret holds the current password, and the database
// accepts only the right one.
func rotating(t *testing.T) (h func() ([]byte, error), current, right *string, reads *int) {
	s, _ := sandbox(t, aSecret)
	current, right, reads = new("old"), new("old"), new(0)
	s.read = func(context.Context, string) (string, error) {
		*reads++
		return `{"username":"u","password":"` + *current + `","host":"127.0.0.1","port":1}`, nil
	}
	open := newOpener(s, func(*app.Core) (string, error) { return *current, nil })
	serve := s.handle(func(ctx context.Context, _ []byte) (any, error) {
		return open.do(ctx, func(o *opened[string]) (any, error) {
			if o.with != *right {
				return nil, &pgconn.PgError{Code: "28P01"}
			}
			return heartbeat.Report{Outcome: heartbeat.Idle}, nil
		})
	})
	return func() ([]byte, error) { return serve(invocation(t), nil) }, current, right, reads
}

func TestRotation(t *testing.T) {
	invoke, current, right, reads := rotating(t)
	for range 3 {
		if _, err := invoke(); err != nil {
			t.Fatal(err)
		}
	}
	if *reads != 1 {
		t.Errorf("the secret was read %d times", *reads)
	}
	*current, *right = "new", "new"
	for range 3 {
		if _, err := invoke(); err != nil {
			t.Errorf("after the rotation: %v", err)
		}
	}
	if *reads != 2 {
		t.Errorf("the secret was read %d times", *reads)
	}
}

// TestARotationClosesWhatWasOpen: a core whose secrets were rotated keeps no connections when another takes its place.
func TestARotationClosesWhatWasOpen(t *testing.T) {
	s, _ := sandbox(t, aSecret)
	made := 0
	s.read = func(context.Context, string) (string, error) {
		return fmt.Sprintf(`{"username":"u","password":"p%d","host":"127.0.0.1","port":1}`, made), nil
	}
	var left []int
	open := newOpener(s, func(core *app.Core) (int, error) {
		made++
		n := made
		core.Leave = func() { left = append(left, n) }
		return n, nil
	})
	now, err := open.current(invocation(t), nil)
	if err == nil {
		now, err = open.current(invocation(t), now)
	}
	if err != nil || now.with != 2 || !slices.Equal(left, []int{1}) {
		t.Errorf("core %d, left %v, %v", now.with, left, err)
	}
}

// If the secret has not changed, there is no second try. The next invocation reads it again.
func TestPasswordThatIsWrong(t *testing.T) {
	invoke, current, right, reads := rotating(t)
	*right = "new"
	for range 2 {
		answer, err := invoke()
		if f := failed(t, answer, err); f.Type != "CredentialsRefused" {
			t.Errorf("told %+v", f)
		}
	}
	if *reads != 3 {
		t.Errorf("the secret was read %d times", *reads)
	}
	*current = "new"
	if _, err := invoke(); err != nil {
		t.Error(err)
	}
}

func TestSecretThatCanNotBeRead(t *testing.T) {
	s, _ := sandbox(t, aSecret)
	s.read = func(context.Context, string) (string, error) { return "", &SecretError{Problem: "gone"} }
	answer, err := beating(s, answering(heartbeat.Report{}, nil)).Invoke(invocation(t), []byte(`{}`))
	if f := failed(t, answer, err); f.Type != "SecretUnusable" || f.Message != "DATABASE_SECRET_ARN ("+secretID+"): gone" {
		t.Errorf("told %+v", f)
	}
}

// held returns a sandbox whose secrets have these texts by ARN, its clock, and how often each
// secret was read. Its invocation returns the token and the keys that are in use.
func held(t *testing.T, texts map[string]string, environ ...string) (invoke func() string, s *Sandbox, clock *time.Time, reads map[string]int) {
	t.Helper()
	s, _ = sandbox(t, environ...)
	clock, reads = new(time.Unix(1_800_000_000, 0)), map[string]int{}
	s.clock = func() time.Time { return *clock }
	var mu sync.Mutex
	s.read = func(_ context.Context, arn string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		reads[arn]++
		text, ok := texts[arn]
		if !ok {
			return "", &SecretError{Problem: "gone"}
		}
		return text, nil
	}
	open := newOpener(s, func(core *app.Core) (string, error) {
		c := core.Config
		return strings.Join([]string{c.AdminToken, c.AnthropicAPIKey, c.JWTSecret}, " "), nil
	})
	serve := s.handle(func(ctx context.Context, _ []byte) (any, error) {
		return open.do(ctx, func(o *opened[string]) (any, error) { return o.with, nil })
	})
	return func() string {
		t.Helper()
		answer, err := serve(invocation(t), nil)
		if err != nil {
			return err.Error()
		}
		var text string
		if err := json.Unmarshal(answer, &text); err != nil {
			t.Fatal(err)
		}
		return text
	}, s, clock, reads
}

const (
	tokenID = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:token-Ab12Cd"
	keysID  = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:keys-Ab12Cd"
	oldest  = "old-token-0123456789"
	signing = "signing-key-0123456789-0123456789"
)

// Each secret is read once, however many variables name it, and again after a while. So a rotated
// or revoked value does not stay in use while a sandbox is warm.
func TestSecretsAreReadAgain(t *testing.T) {
	texts := map[string]string{tokenID: oldest, keysID: `{"ANTHROPIC_API_KEY":"key","JWT_SECRET":"` + signing + `"}`}
	invoke, _, clock, reads := held(t, texts, nowhere, "ADMIN_TOKEN_SECRET_ARN="+tokenID,
		"ANTHROPIC_API_KEY_SECRET_ARN="+keysID, "JWT_SECRET_SECRET_ARN="+keysID)
	before := oldest + " key " + signing
	for range 3 {
		if got := invoke(); got != before {
			t.Fatalf("in force is %s", got)
		}
	}
	if reads[tokenID] != 1 || reads[keysID] != 1 {
		t.Errorf("read %v", reads)
	}
	texts[tokenID] = "new-token-0123456789"
	*clock = clock.Add(secretLife - time.Second)
	if got := invoke(); got != before || reads[tokenID] != 1 {
		t.Errorf("in force is %s, read %v", got, reads)
	}
	*clock = clock.Add(time.Second)
	after := strings.Replace(before, oldest, "new-token-0123456789", 1)
	for range 2 {
		if got := invoke(); got != after || reads[tokenID] != 2 || reads[keysID] != 2 {
			t.Errorf("in force is %s, read %v", got, reads)
		}
	}
	texts[tokenID] = "short" // it can't be used: the old value stays in use, and the secret is not read at each request
	*clock = clock.Add(secretLife)
	for range 2 {
		if got := invoke(); got != after || reads[tokenID] != 3 {
			t.Errorf("in force is %s, read %v", got, reads)
		}
	}
	delete(texts, tokenID) // Secrets Manager is down
	*clock = clock.Add(secretLife)
	if got := invoke(); got != after || reads[tokenID] != 4 {
		t.Errorf("in force is %s, read %v", got, reads)
	}
}

// While Secrets Manager does not answer, even the function with the least time, webhook, works with the secrets of
// before: the read takes no more than a part of the invocation's time.
func TestAReadThatHangsLeavesTimeForTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := sandbox(t, nowhere, "ADMIN_TOKEN_SECRET_ARN="+tokenID)
		hangs, reads := false, 0
		s.read = func(ctx context.Context, _ string) (string, error) {
			reads++
			if !hangs {
				return oldest, nil
			}
			<-ctx.Done()
			return "", &SecretError{Problem: "Secrets Manager can't be reached", Err: ctx.Err()}
		}
		open := newOpener(s, func(core *app.Core) (string, error) { return core.Config.AdminToken, nil })
		for n := range 3 {
			ctx, cancel := context.WithTimeout(invocation(t), 10*time.Second)
			now, err := open.current(ctx, nil)
			if err != nil || now.with != oldest || ctx.Err() != nil || reads != min(n, 1)+1 {
				t.Errorf("request %d: %+v, %v after %d reads; its time: %v", n, now, err, reads, ctx.Err())
			}
			cancel()
			if n == 0 {
				hangs = true
				time.Sleep(secretLife) // of the bubble's clock
			}
		}
	})
}

// An error about a secret names its variable and its ARN, and never its content. After the secret
// is repaired, the next invocation works.
func TestASecretThatCanNotBeUsed(t *testing.T) {
	texts := map[string]string{tokenID: "hunter2"}
	invoke, _, _, _ := held(t, texts, nowhere, "ADMIN_TOKEN_SECRET_ARN="+tokenID)
	got := invoke()
	for _, part := range []string{"InvalidConfiguration", "ADMIN_TOKEN_SECRET_ARN", tokenID, "too short", "openssl"} {
		if !strings.Contains(got, part) {
			t.Errorf("%s does not say %s", got, part)
		}
	}
	if strings.Contains(got, "hunter2") {
		t.Errorf("%s says what the secret holds", got)
	}
	texts[tokenID] = oldest
	if got := invoke(); got != oldest+"  " {
		t.Errorf("in force is %q", got)
	}
}
