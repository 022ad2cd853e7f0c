package intake_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/intake"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// broken is a body that ends with an error.
type broken struct {
	text io.Reader
	err  error
}

func (b broken) Read(p []byte) (int, error) {
	if n, err := b.text.Read(p); err == nil {
		return n, nil
	}
	return 0, b.err
}

func read(body io.Reader, l intake.Limits) ([]byte, func(), *problem.Problem) {
	return intake.Read(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", body), l)
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		body   io.Reader
		status int // 0: the whole body is returned
	}{
		"nothing":               {nil, 0},
		"as much as may be":     {strings.NewReader(strings.Repeat("x", 1<<10)), 0},
		"a byte more":           {strings.NewReader(strings.Repeat("x", 1<<10+1)), http.StatusRequestEntityTooLarge},
		"a byte more, streamed": {io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<10)), strings.NewReader("x")), http.StatusRequestEntityTooLarge},
		"cut off":               {broken{strings.NewReader("xx"), io.ErrUnexpectedEOF}, http.StatusBadRequest},
		"too slow":              {broken{strings.NewReader("xx"), os.ErrDeadlineExceeded}, http.StatusRequestTimeout},
	} {
		var want []byte
		if text, ok := c.body.(*strings.Reader); ok {
			want, _ = io.ReadAll(text)
			_, _ = text.Seek(0, io.SeekStart)
		}
		body, free, p := read(c.body, intake.Limits{Size: 1 << 10})
		switch {
		case c.status == 0 && (p != nil || !bytes.Equal(body, want)):
			t.Errorf("%s: %d bytes, %v", name, len(body), p)
		case c.status != 0 && (p == nil || p.Status != c.status || free != nil || body != nil):
			t.Errorf("%s: %v, not %d", name, p, c.status)
		}
	}
}

// TestAnAnnouncedLengthTakesNoMemory: a body that stops behind its beginning takes what has arrived.
func TestAnAnnouncedLengthTakesNoMemory(t *testing.T) {
	stops := broken{strings.NewReader(strings.Repeat("x", 70<<10)), io.ErrUnexpectedEOF}
	took := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			stops.text.(*strings.Reader).Reset(strings.Repeat("x", 70<<10))
			r := httptest.NewRequest(http.MethodPost, "/", stops)
			r.ContentLength = 6 << 20
			if _, _, p := intake.Read(httptest.NewRecorder(), r, intake.Limits{Size: 6 << 20}); p == nil {
				b.Fatal("a broken body is accepted")
			}
		}
	}).AllocedBytesPerOp()
	if took > 1<<20 {
		t.Errorf("70 KiB of an announced 6 MiB took %d bytes", took)
	}
}

// TestRoom holds bodies until they are freed, half of it from one network at most.
func TestRoom(t *testing.T) {
	var room intake.Room
	network := func(text string) netip.Prefix { return netip.MustParsePrefix(text) }
	one, two, three := network("198.51.100.0/24"), network("203.0.113.0/24"), network("192.0.2.0/24")
	take := func(from netip.Prefix, n int) (func(), *problem.Problem) {
		_, free, p := read(strings.NewReader(strings.Repeat("x", n)), intake.Limits{Size: 1 << 10, Room: &room, Total: 1000, From: from})
		return free, p
	}
	freeOne, p := take(one, 500)
	if p != nil {
		t.Fatal(p)
	}
	if _, p := take(one, 1); p == nil || p.Status != http.StatusServiceUnavailable {
		t.Errorf("more than half of the room from one network: %v", p)
	}
	freeTwo, p := take(two, 500)
	if p != nil {
		t.Fatal(p)
	}
	if _, p := take(three, 1); p == nil || p.Status != http.StatusServiceUnavailable {
		t.Errorf("more than all of the room: %v", p)
	}
	freeOne()
	freeOne() // has no effect a second time
	if free, p := take(three, 500); p != nil {
		t.Errorf("room that was freed: %v", p)
	} else {
		free()
	}
	freeTwo()
	// A body that was refused or broke off takes no room.
	if _, _, p := read(broken{strings.NewReader("xx"), context.Canceled}, intake.Limits{Size: 1 << 10, Room: &room, Total: 1000, From: one}); p == nil {
		t.Error("a broken body is accepted")
	}
	if free, p := take(one, 500); p != nil {
		t.Errorf("after a broken body: %v", p)
	} else {
		free()
	}
}

func TestJSON(t *testing.T) {
	for header, fits := range map[[2]string]bool{
		{}: true, {"Content-Type", "application/json"}: true, {"Content-Type", "application/json; charset=UTF-8"}: true,
		{"Content-Encoding", "identity"}: true, {"Content-Encoding", "gzip"}: false, {"Content-Type", "text/json"}: false,
		{"Content-Type", "application/json; charset=latin1"}: false, {"Content-Type", ";"}: false,
	} {
		h := http.Header{}
		if header[0] != "" {
			h.Set(header[0], header[1])
		}
		if p := intake.JSON(h); (p == nil) != fits {
			t.Errorf("%v: %v", header, p)
		}
	}
}
