package wire_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
)

// read returns the events of a stream as "type|data", and the error that ends it.
func read(in io.Reader, limit int) (events []string, err error) {
	r := wire.NewReader(in, limit)
	for {
		e, err := r.Next()
		if err != nil {
			return events, err
		}
		events = append(events, e.Type+"|"+string(e.Data))
	}
}

func TestReader(t *testing.T) {
	for name, test := range map[string]struct {
		stream string
		want   []string
	}{
		"data":                     {"data: a\n\ndata: b\n\n", []string{"|a", "|b"}},
		"a type":                   {"event: ping\ndata: {}\n\n", []string{"ping|{}"}},
		"a type behind the data":   {"data: {}\nevent: ping\n\n", []string{"ping|{}"}},
		"a type is for one event":  {"event: ping\ndata: 1\n\ndata: 2\n\n", []string{"ping|1", "|2"}},
		"a type without data":      {"event: ping\n\ndata: 2\n\n", []string{"|2"}},
		"several lines of data":    {"data: a\ndata:\ndata: b\n\n", []string{"|a\n\nb"}},
		"no space":                 {"data:a\nevent:x\n\n", []string{"x|a"}},
		"one space is taken off":   {"data:  a \n\n", []string{"| a "}},
		"comments":                 {": OPENROUTER PROCESSING\n\n:\ndata: a\n: more\n\n", []string{"|a"}},
		"other fields":             {"id: 7\nretry: 10\nDATA: no\n data: no\ndata: a\n\n", []string{"|a"}},
		"a field without a colon":  {"data\ndata: a\n\n", []string{"|\na"}},
		"data without anything":    {"data:\n\ndata\n\ndata: a\n\n", []string{"|a"}},
		"carriage returns":         {"data: a\r\n\r\nevent: x\rdata: b\r\rdata: c\n\n", []string{"|a", "x|b", "|c"}},
		"a byte order mark":        {"\uFEFFdata: a\n\n\uFEFFdata: no\n\n", []string{"|a"}},
		"no blank line at the end": {"data: a\n\ndata: [DONE]\n", []string{"|a", "|[DONE]"}},
		"no line end at the end":   {"data: a\n\ndata: [DONE]", []string{"|a", "|[DONE]"}},
		"many blank lines":         {"\n\n\ndata: a\n\n\n\n", []string{"|a"}},
		"nothing":                  {"", nil},
		"something else":           {"<html>\n<body>Bad gateway</body>\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, in := range []io.Reader{
				strings.NewReader(test.stream), iotest.OneByteReader(strings.NewReader(test.stream)), iotest.DataErrReader(strings.NewReader(test.stream)),
			} {
				got, err := read(in, 100)
				if !slices.Equal(got, test.want) || !errors.Is(err, io.EOF) {
					t.Errorf("got %q, %v, want %q", got, err, test.want)
				}
			}
		})
	}
}

// The events do not depend on how a stream is written, nor on where it is split.
func TestReaderProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.SampledFrom([]string{"\n", "\r", "\r\n"})
		var stream strings.Builder
		var want []string
		for range rapid.IntRange(0, 5).Draw(t, "events") {
			lines := rapid.SliceOfN(rapid.StringMatching(`[^\r\n\x00]{0,8}`), 1, 3).Draw(t, "lines")
			kind := rapid.StringMatching(`[a-z_]{0,8}`).Draw(t, "type")
			_, _ = fmt.Fprintf(&stream, "event: %s%s", kind, end.Draw(t, "end"))
			for _, line := range lines {
				_, _ = fmt.Fprintf(&stream, ": comment%sdata: %s%s", end.Draw(t, "end"), line, end.Draw(t, "end"))
			}
			stream.WriteString("\r\n\r\n") // whatever came before, this is a blank line
			if data := strings.Join(lines, "\n"); data != "" {
				want = append(want, kind+"|"+data)
			}
		}
		text := stream.String()
		for at := range len(text) + 1 {
			in := io.MultiReader(strings.NewReader(text[:at]), strings.NewReader(text[at:]))
			if got, err := read(in, 1000); !slices.Equal(got, want) || !errors.Is(err, io.EOF) {
				t.Fatalf("cut at %d, %q gives %q, %v, want %q", at, text, got, err, want)
			}
		}
	})
}

type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n+len(e) <= len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

func TestReaderIsBounded(t *testing.T) {
	const limit = 1000
	for name, in := range map[string]io.Reader{
		"a line":        io.MultiReader(strings.NewReader("data: "), endless("x")),
		"lines":         endless("data: x\n"),
		"empty lines":   endless("data\n"),
		"a comment":     io.MultiReader(strings.NewReader(":"), endless("x")),
		"a type":        io.MultiReader(strings.NewReader("event: "), endless("x")),
		"just too much": strings.NewReader("data: " + strings.Repeat("x", limit+1) + "\n\n"),
	} {
		if got, err := read(in, limit); len(got) > 0 || !errors.Is(err, wire.ErrTooLong) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	fits := "data: " + strings.Repeat("x", limit-len("data: "))
	if got, err := read(strings.NewReader(fits+"\n\n"), limit); len(got) != 1 || !errors.Is(err, io.EOF) {
		t.Errorf("what fits: got %q, %v", got, err)
	}
}

func TestReaderPassesErrorsOn(t *testing.T) {
	cut := io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(io.ErrUnexpectedEOF))
	got, err := read(cut, 100)
	if !slices.Equal(got, []string{"|a"}) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %q, %v: what was cut off is no event", got, err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("event: a\ndata: b\r\n\r\n: c\rdata: d\ndata: e\n\n"), 3)
	f.Add([]byte("\uFEFFdata\n\ndata:x"), 0)
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		const limit = 64
		whole, err := read(strings.NewReader(string(stream)), limit)
		if !errors.Is(err, io.EOF) && !errors.Is(err, wire.ErrTooLong) {
			t.Fatalf("ended by %v", err)
		}
		for _, e := range whole {
			if _, data, _ := strings.Cut(e, "|"); data == "" || len(data) > limit {
				t.Fatalf("event %q", e)
			}
		}
		at := min(max(cut, 0), len(stream))
		parts, errParts := read(io.MultiReader(strings.NewReader(string(stream[:at])), strings.NewReader(string(stream[at:]))), limit)
		if !slices.Equal(whole, parts) || fmt.Sprint(err) != fmt.Sprint(errParts) {
			t.Fatalf("cut at %d: %q, %v; whole: %q, %v", at, parts, errParts, whole, err)
		}
	})
}
