package chaos_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/infra/rig/proxy"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

const signer = "a-text-that-signs-webhooks"

// sources creates n sources of GitHub. A rule notes each event, or says it to the agent, which
// notes it.
func (s *storm) sources(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		s.must(t, "POST", "/webhook-sources", fmt.Sprintf(`{"name":"gh-%d","kind":"github","secret":%q,"rules":[
			{"event":"note","then":{"skill":"note","with":{"key":"{{body.key}}"}}},
			{"event":"say","then":{"message":{"thread":{"channel":"gh","address":"{{body.key}}"},"body":"note {{body.key}}"}}}]}`, i, signer), nil)
	}
}

// request returns a delivery to the n-th source, in the form that the HTTP API passes on.
func request(n int, id, event, body string) []byte {
	mac := hmac.New(sha256.New, []byte(signer))
	mac.Write([]byte(body))
	path := fmt.Sprintf("/webhooks/%s/gh-%d", workspace.DefaultSlug, n)
	text, encoded := body, !utf8.ValidString(body)
	if encoded {
		text = base64.StdEncoding.EncodeToString([]byte(body))
	}
	raw, _ := json.Marshal(map[string]any{
		"version": "2.0", "rawPath": path, "body": text, "isBase64Encoded": encoded,
		"headers": map[string]string{"content-type": "application/json", "x-github-delivery": id, "x-github-event": event,
			"x-hub-signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil))},
		"requestContext": map[string]any{
			"stage": "$default", "domainName": "ghi789.execute-api.eu-central-1.amazonaws.com",
			"http": map[string]string{"method": "POST", "path": path, "sourceIp": "198.51.100.7"},
		},
	})
	return raw
}

func bodyOf(key string) string { return fmt.Sprintf(`{"key":%q}`, key) }

// acknowledged is the response to a delivery.
type acknowledged struct {
	code     int
	ID       string
	Status   string
	Conflict bool
}

func (a acknowledged) ok() bool { return a.code >= 200 && a.code < 300 }

// answerTo decodes a response. The zero value means that there is none.
func answerTo(r *rig.Result, err error) (a acknowledged) {
	var whole struct {
		StatusCode int
		Body       string
	}
	if err != nil || r.FunctionError != nil || json.Unmarshal(r.Payload, &whole) != nil {
		return acknowledged{}
	}
	_ = json.Unmarshal([]byte(whole.Body), &a) // stays empty if the response is a problem
	a.code = whole.StatusCode
	return a
}

// deliver sends a delivery, and repeats it after a retryable response, for five minutes.
func (s *storm) deliver(ctx context.Context, event []byte) acknowledged {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		a := answerTo(s.hook.Invoke(ctx, event))
		if a.code != http.StatusTooManyRequests && a.code != http.StatusServiceUnavailable || ctx.Err() != nil {
			return a
		}
		pause := time.NewTimer(50 * time.Millisecond)
		<-pause.C
	}
}

// tended advances the clock minute by minute and lets operate do due work, until all deliveries
// have ended.
func (s *storm) tended(t *testing.T) {
	t.Helper()
	const open = `SELECT count(*) FROM inbox WHERE status NOT IN ('done', 'parked')`
	for before, idle := -1, 0; ; {
		s.minute(t)
		now := s.count(t, open)
		if now == 0 {
			break
		}
		if idle++; now != before {
			before, idle = now, 0
		}
		if idle > 10 {
			t.Fatalf("%d deliveries stay open\n%s", now, s.evidence(t))
		}
		if idle > 0 {
			s.advance(t, moves)
		}
	}
}

func newDoor(t *testing.T, engine string, seed uint64, sources int) *storm {
	t.Helper()
	var deck []int
	s := newStorm(t, engine, rand.New(rand.NewPCG(seed, 9)), &deck) //nolint:gosec // a test that can be repeated
	s.sources(t, sources)
	return s
}

var doors = []string{dbtest.OnPostgres, dbtest.OnPgBouncer}

// R9: deliveries come twice, concurrently and in any order. The number of effects is the number of
// unique ids. Duplicates get a 2xx response, and those with another body are flagged.
func TestDuplicateAndShuffledWebhooks(t *testing.T) {
	all := promise.Figure(120, 5000)
	seed := promise.Seed(t)
	for _, engine := range doors {
		t.Run(engine, func(t *testing.T) {
			proof := promise.Of(t, "R9", fmt.Sprintf("%d webhooks, 30 %% of them duplicates, at once and shuffled, on %s", all, engine),
				"effects = unique ids; duplicates answered 2xx; the same id with another body is flagged")
			const sources, senders = 8, 6
			s := newDoor(t, engine, seed, sources)
			unique := all * 7 / 10
			conflicts := all / 50
			type sent struct {
				n    int
				body string
			}
			var queue []sent
			for i := range all {
				n := i % unique
				body := bodyOf(fmt.Sprintf("r9-%d", n))
				if i >= all-conflicts {
					body = bodyOf(fmt.Sprintf("r9-%d-other", n))
				}
				queue = append(queue, sent{n, body})
			}
			s.random.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
			var next atomic.Int64
			var mu sync.Mutex
			received, duplicate, flagged, wrong := 0, 0, 0, 0
			var sending sync.WaitGroup
			for range senders {
				sending.Go(func() {
					for i := next.Add(1) - 1; i < int64(len(queue)); i = next.Add(1) - 1 {
						d := queue[i]
						a := s.deliver(t.Context(), request(d.n%sources, fmt.Sprintf("r9-%d", d.n), "note", d.body))
						mu.Lock()
						switch {
						case a.code == http.StatusAccepted && a.Status == "received":
							received++
						case a.code == http.StatusOK && a.Status == "duplicate":
							duplicate++
							if a.Conflict {
								flagged++
							}
						default:
							wrong++
						}
						mu.Unlock()
					}
				})
			}
			sending.Wait()
			s.tended(t)
			effects := 0
			for n := range unique {
				keys := []string{fmt.Sprintf("r9-%d", n), fmt.Sprintf("r9-%d-other", n)}
				here := s.outside.Effects(keys[0]) + s.outside.Effects(keys[1])
				if here != 1 {
					t.Errorf("delivery %d has %d effects", n, here)
				}
				effects += here
			}
			rows := s.count(t, `SELECT count(*) FROM inbox`)
			marked := s.count(t, `SELECT coalesce(sum(conflicts), 0) FROM inbox`)
			proof.Tell("%d effects of %d unique ids; %d received, %d duplicates, %d flagged, %d otherwise", effects, unique, received, duplicate, flagged, wrong)
			if rows != unique || received != unique || duplicate != all-unique || wrong != 0 || flagged != marked || flagged < conflicts {
				t.Errorf("%d rows, %d flagged in them, of %d with another body", rows, marked, conflicts)
			}
		})
	}
}

// R10: between receipt and response the database's connections are cut, at any instant and while
// the row is written, and the process is killed. A delivery that got a 2xx response is stored, and
// one without a row got none. After the sender repeats a delivery, it is stored exactly once.
func TestAcceptedMeansStored(t *testing.T) {
	cuts := promise.Figure(16, 250)
	seed := promise.Seed(t)
	for _, engine := range doors {
		t.Run(engine, func(t *testing.T) {
			proof := promise.Of(t, "R10", fmt.Sprintf("%d cuts between receipt and answer, on %s", cuts, engine), "2xx: a row; no row: never 2xx; sent again: stored once")
			s := newDoor(t, engine, seed, 1)
			s.deliver(t.Context(), request(0, "warm", "none", bodyOf("warm")))
			link := s.proxies[2]
			answered, stored, unanswered := 0, 0, 0
			for n := range cuts {
				id := fmt.Sprintf("r10-%d", n)
				event := request(0, id, "none", bodyOf(id))
				kill := n%2 == 0
				cut, cutting := time.AfterFunc(time.Hour, func() {}), make(chan struct{})
				if !kill {
					kind := []proxy.Kind{proxy.Cut, proxy.CutAnswer, proxy.HalfAnswer}[s.random.IntN(3)]
					if n%50 == 1 && promise.Full() { // this takes the function's whole time-out
						kind = proxy.SwallowAnswers
					}
					if n%4 == 1 {
						link.At("INSERT INTO inbox", proxy.Fault{Kind: kind})
					} else {
						cut = time.AfterFunc(time.Duration(s.random.Int64N(int64(8*time.Millisecond))), func() {
							defer close(cutting)
							link.Set(proxy.Fault{Kind: kind})
						})
					}
				}
				inv, err := s.hook.Begin(t.Context(), event, rig.WithTimeout(10*time.Second))
				if err != nil {
					t.Fatal(err)
				}
				if kill {
					<-inv.Started()
					instant := time.NewTimer(time.Duration(s.random.Int64N(int64(8 * time.Millisecond))))
					<-instant.C
					_ = inv.Kill() // does nothing if it has responded
				}
				a := answerTo(inv.Wait(t.Context()))
				if !cut.Stop() { // its function runs, or has run
					<-cutting
				}
				link.Set(proxy.Fault{})
				s.unanswered(t)
				row := s.count(t, `SELECT count(*) FROM inbox WHERE delivery_id = $1`, id)
				switch {
				case a.ok() && row != 1:
					t.Errorf("%s was answered with %d, and has %d rows", id, a.code, row)
				case a.ok():
					answered++
				case row == 1:
					stored++
				default:
					unanswered++
				}
				// The requests of a dead process may arrive late.
				if again := s.deliver(t.Context(), event); !again.ok() || row == 1 && again.Status != "duplicate" {
					t.Errorf("%s, sent again: %+v, there were %d rows", id, again, row)
				}
				if rows := s.count(t, `SELECT count(*) FROM inbox WHERE delivery_id = $1`, id); rows != 1 {
					t.Errorf("%s has %d rows in the end", id, rows)
				}
				proof.Tell("%d answered and stored, %d stored and not answered, %d neither; each stored once when it was sent again", answered, stored, unanswered)
			}
			if answered == cuts {
				t.Error("nothing was cut: the instants are not those of the requests")
			}
		})
	}
}

// R11: webhooks are acknowledged in less than a second, by warm and by cold functions, while all
// the work that they began waits for a model that does not answer.
func TestPromptAcknowledgement(t *testing.T) {
	calls := promise.Figure(20, 1000)
	seed := promise.Seed(t)
	for _, engine := range doors {
		t.Run(engine, func(t *testing.T) {
			proof := promise.Of(t, "R11", fmt.Sprintf("%d webhooks to warm functions and %d to cold ones, the model asleep all the while, on %s", calls, calls/10, engine), "p99 < 1 s, also when cold")
			s := newDoor(t, engine, seed, 4)
			s.outside.Sleep(time.Hour) // longer than the run
			for n := range 4 {
				s.deliver(t.Context(), request(n, fmt.Sprintf("sleepy-%d", n), "say", bodyOf(fmt.Sprintf("sleepy-%d", n))))
			}
			tending, err := s.operate.Begin(t.Context(), []byte(`{"source":"lanekeeper.tend"}`), rig.WithTimeout(ample))
			if err != nil {
				t.Fatal(err)
			}
			asleep := func(otherwise string) { // a silent model is asked anew now and then
				t.Helper()
				for until := time.Now().Add(2 * time.Minute); s.outside.Asleep() == 0; s.exec(t, `SELECT pg_sleep(0.01)`) {
					if time.Now().After(until) {
						t.Fatal(otherwise)
					}
				}
			}
			asleep("the model is not asked")
			took := map[bool][]time.Duration{}
			for n := range calls + calls/10 {
				if n%11 == 0 {
					s.hook.Retire()
				}
				r, err := s.hook.Invoke(t.Context(), request(n%4, fmt.Sprintf("r11-%d", n), "say", bodyOf(fmt.Sprintf("r11-%d", n%4))))
				a := answerTo(r, err)
				if a.code == http.StatusTooManyRequests {
					continue
				}
				if a.code != http.StatusAccepted {
					t.Fatalf("%+v, %v\n%s", a, err, ending(s.hook.Logs()))
				}
				took[r.Cold] = append(took[r.Cold], r.InitDuration+r.Duration)
			}
			proof.Tell("warm p99 %s of %d, cold p99 %s of %d", p99(took[false]), len(took[false]), p99(took[true]), len(took[true]))
			least := time.Second
			if !promise.Full() { // the machine may be busy with other tests
				least = 15 * time.Second
			}
			for cold, all := range took {
				if p99(all) >= least {
					t.Errorf("cold %t: %s", cold, p99(all))
				}
			}
			asleep("the model has woken up")
			s.outside.Sleep(0)
			if res, err := tending.Wait(t.Context()); err != nil || res.FunctionError != nil {
				t.Errorf("tend: %v, %+v", err, res)
			}
		})
	}
}

func p99(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[min(len(all)-1, len(all)*99/100)].Round(time.Microsecond)
}

// R8: the events that make operate do due work come again: after the process has died, after the
// time-out, and for no reason. Each delivery has at most one effect, and exactly one in the end. An
// event whose last try fails becomes a dead letter.
func TestAsynchronousEventsComeAgain(t *testing.T) {
	t.Parallel()
	events := promise.Figure(8, 500)
	seed := promise.Seed(t)
	for _, engine := range doors {
		t.Run(engine, func(t *testing.T) {
			proof := promise.Of(t, "R8", fmt.Sprintf("%d events again, after an error, after the time-out, and for no reason, on %s", events, engine),
				"1 effect each at most; a dead letter after the last failure")
			s := newDoor(t, engine, seed, 2)
			tend := []byte(`{"source":"lanekeeper.tend"}`)
			letters := 0
			for n := range events {
				key := fmt.Sprintf("r8-%d", n)
				if a := s.deliver(t.Context(), request(n%2, key, "note", bodyOf(key))); !a.ok() {
					t.Fatalf("%+v", a)
				}
				switch n % 4 {
				case 0: // for no reason
					e, err := s.operate.InvokeAsync(t.Context(), tend)
					if err != nil {
						t.Fatal(err)
					}
					again, err := s.operate.InvokeAsync(t.Context(), tend, rig.WithRequestID(e.RequestID))
					if err != nil {
						t.Fatal(err)
					}
					await(t, e)
					await(t, again)
				case 1: // after an error, at any instant
					s.again(t, tend, func(inv *rig.Invocation, last bool) {
						if last {
							return
						}
						<-inv.Started()
						instant := time.NewTimer(time.Duration(s.random.Int64N(int64(40 * time.Millisecond))))
						<-instant.C
						_ = inv.Kill()
					})
				case 2: // after the time-out, which expires while the receiver works
					s.outside.Hold(300 * time.Millisecond)
					e, err := s.operate.InvokeAsync(t.Context(), tend, rig.WithTimeout(250*time.Millisecond))
					if err != nil {
						t.Fatal(err)
					}
					if results := await(t, e); results[len(results)-1].FunctionError != nil {
						letters++
					}
					s.outside.Hold(0)
				case 3: // after errors only
					e, err := s.operate.InvokeAsync(t.Context(), []byte(`{"source":"lanekeeper.nothing"}`))
					if err != nil {
						t.Fatal(err)
					}
					if results := await(t, e); results[len(results)-1].FunctionError != nil {
						letters++
					}
				}
				if twice := s.outside.Doubled(); len(twice) > 0 {
					t.Fatalf("doubled: %v", twice)
				}
			}
			if got := len(s.operate.DeadLetters()); got != letters {
				t.Errorf("%d dead letters of %d events whose last try failed", got, letters)
			}
			s.advance(t, ample+leaseMargin)
			s.tended(t)
			effects, lost := 0, 0
			for n := range events {
				switch got := s.outside.Effects(fmt.Sprintf("r8-%d", n)); {
				case got > 1:
					t.Errorf("event %d has %d effects", n, got)
				case got == 0:
					lost++
				}
				effects += s.outside.Effects(fmt.Sprintf("r8-%d", n))
			}
			parked := s.count(t, `SELECT count(*) FROM inbox WHERE status = 'parked'`)
			proof.Tell("%d effects of %d deliveries, none twice, %d parked; %d dead letters of %d events whose last try failed", effects, events, parked, len(s.operate.DeadLetters()), letters)
			if lost != parked {
				t.Errorf("%d deliveries have no effect, %d are parked", lost, parked)
			}
		})
	}
}

// again invokes operate up to three times until it succeeds, like Lambda.
func (s *storm) again(t *testing.T, event []byte, strike func(inv *rig.Invocation, last bool)) {
	t.Helper()
	for try := range 3 {
		inv, err := s.operate.Begin(t.Context(), event, rig.WithTimeout(ample))
		if err != nil {
			t.Error(err)
			return
		}
		strike(inv, try == 2)
		if res, err := inv.Wait(t.Context()); err != nil || res.FunctionError == nil {
			return
		}
	}
}

func await(t *testing.T, e *rig.Event) []*rig.Result {
	t.Helper()
	results, err := e.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// S6: bombs and floods at the webhook function get responses 400, 415 and 429, and its process
// stays below 128 MB. Lambda itself refuses an event that is larger than the largest body.
func TestBombsAndFloodsAtTheDoor(t *testing.T) {
	floods := promise.Figure(400, 3000)
	proof := promise.Of(t, "S6", fmt.Sprintf("bombs, and %d requests with wrong signatures, at the webhook function", floods), "400, 415, 429; < 128 MB")
	s := newDoor(t, dbtest.OnPostgres, promise.Seed(t), 1)
	codes := map[int]int{}
	peak := 0
	send := func(event []byte) int {
		inv, err := s.hook.Begin(t.Context(), event)
		if err != nil {
			t.Fatal(err)
		}
		<-inv.Started()
		pid := inv.PID()
		a := answerTo(inv.Wait(t.Context()))
		peak = max(peak, resident(t, pid))
		codes[a.code]++
		return a.code
	}
	large := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		body string
		want int
	}{
		"large":         {`{"key":"large","all":"` + strings.Repeat(large, 5) + `"}`, http.StatusAccepted},
		"deep":          {strings.Repeat("[", 1<<19), http.StatusBadRequest},
		"no JSON":       {`{"key":`, http.StatusBadRequest},
		"no text":       {"\xff\xfe" + large[:1000], http.StatusUnsupportedMediaType},
		"wide":          {`{"key":"wide","all":[` + strings.Repeat("0,", 200_000) + `0]}`, http.StatusAccepted},
		"too wide":      {`{"key":"wide","all":[` + strings.Repeat("0,", 2_000_000) + `0]}`, http.StatusBadRequest},
		"many names":    {`{"key":"names"` + names(100_000) + `}`, http.StatusAccepted},
		"a long number": {`{"key":1` + strings.Repeat("0", 1<<19) + `}`, http.StatusAccepted},
	} {
		for range promise.Figure(3, 40) {
			got := send(request(0, "bomb "+name, "none", c.body))
			if got != c.want && (c.want != http.StatusAccepted || got != http.StatusOK) {
				t.Errorf("%s: %d, not %d", name, got, c.want)
			}
		}
	}
	wrong := request(0, "flood", "none", "{}")
	wrong = []byte(strings.Replace(string(wrong), "sha256=", "sha256=00", 1))
	for range floods {
		send(wrong)
	}
	if codes[http.StatusTooManyRequests] == 0 || codes[http.StatusUnauthorized] == 0 || codes[0] > 0 || codes[http.StatusInternalServerError] > 0 {
		t.Errorf("answered %v", codes)
	}
	if good := s.deliver(t.Context(), request(0, "good", "none", "{}")); good.code != http.StatusAccepted {
		t.Errorf("a good one behind the flood: %+v", good)
	}
	if peak >= 128<<10 || peak == 0 && runtime.GOOS == "linux" {
		t.Errorf("the process took %d KiB", peak)
	}
	proof.Tell("answered %v; the process took %d MiB at most", codes, peak>>10)
}

// names returns n fields of a JSON object, each after a comma.
func names(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"n%d":%d`, i, i)
	}
	return b.String()
}
