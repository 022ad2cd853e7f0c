package engineroom_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/infra/rig/engineroom"
)

var sourceOfRoom = filepath.Join(root, "shared", "engineroom")

// description is the part of the OpenAPI document that the page relies on.
type description struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Schemas map[string]struct {
			Properties map[string]struct{ Enum []any }
		}
	}
}

func described(r *room) (d description) {
	r.Helper()
	answer, err := http.Get(r.URL + "/openapi.json")
	r.must(err)
	defer func() { _ = answer.Body.Close() }()
	r.must(json.NewDecoder(answer.Body).Decode(&d))
	return d
}

// source returns the texts of the page's source, by their names.
func source(t testing.TB) map[string]string {
	t.Helper()
	texts := map[string]string{}
	dir := filepath.Join(sourceOfRoom, "web", "src")
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(filepath.Ext(name), ".ts") {
			return err
		}
		text, err := os.ReadFile(name)
		texts[strings.TrimPrefix(name, dir+"/")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

var (
	kindOf   = regexp.MustCompile(`(?ms)^  (\w+): \{\n(.*?)^  \},`)
	statusOf = regexp.MustCompile(`(\w+): \["(\w+)", "[^"]+"\]`)
)

// schemas are the types of the API whose status each kind of the page's table shows.
var schemas = map[string][]string{
	"task": {"TaskItem"}, "agent": {"AgentItem"}, "execution": {"ExecutionItem", "TraceAnswer"}, "step": {"TraceStep"}, "activity": {"ActivityItem"},
	"approval": {"ApprovalItem"}, "message": {"MessageItem", "OutboxItem"}, "heal": {"HealItem"}, "objective": {"ObjectiveItem"}, "delivery": {"DeliveryItem"},
}

// statuses: the page has a tone and a word for each status that the API describes.
func statuses(r *room) {
	table := map[string][]string{}
	for _, kind := range kindOf.FindAllStringSubmatch(source(r)["ui/status.ts"], -1) {
		for _, status := range statusOf.FindAllStringSubmatch(kind[2], -1) {
			table[kind[1]] = append(table[kind[1]], status[1])
		}
	}
	d := described(r)
	seen := 0
	for name, schema := range d.Components.Schemas {
		for kind, of := range schemas {
			if !slices.Contains(of, name) {
				continue
			}
			seen++
			for _, status := range schema.Properties["status"].Enum {
				if text, ok := status.(string); ok && !slices.Contains(table[kind], text) {
					r.Errorf("status.ts has no %s %s, which %s may have: %q", kind, text, name, table[kind])
				}
			}
		}
	}
	if seen < 8 {
		r.Errorf("only %d of the types are described: %q", seen, slices.Sorted(maps.Keys(d.Components.Schemas)))
	}
}

var (
	read   = regexp.MustCompile("(?:useResource|usePages)(?:<[^(]*>)?\\(\\s*(?:[^\"`(,]*\\? ?)?[\"`](/[^\"`\\s?]*)[\"`]")
	called = regexp.MustCompile("api\\.(get|post|put|patch|delete)(?:<[^(]*>)?\\(\\s*[\"`](/[^\"`\\s?]*)[\"`]")
	filled = regexp.MustCompile(`\$\{[^}]*\}`)
)

// routes: each route that the page asks is one of the API's.
func routes(r *room) {
	d := described(r)
	known := func(path, method string) bool {
		want := strings.Split("/api/v1"+filled.ReplaceAllString(strings.TrimSuffix(path, "/"), "*"), "/")
		for described, methods := range d.Paths {
			have := strings.Split(described, "/")
			if len(have) != len(want) && !(strings.HasSuffix(path, "/") && len(have) == len(want)+1) {
				continue
			}
			fits := true
			for i := range want {
				fits = fits && (want[i] == have[i] || want[i] == "*" || strings.HasPrefix(have[i], "{") && want[i] != "")
			}
			if _, has := methods[method]; fits && (method == "" || has) {
				return true
			}
		}
		return false
	}
	found := 0
	for name, text := range source(r) {
		for _, call := range called.FindAllStringSubmatch(text, -1) {
			if found++; !known(call[2], call[1]) {
				r.Errorf("%s asks %s %s, which the API lacks", name, call[1], call[2])
			}
		}
		for _, asked := range read.FindAllStringSubmatch(text, -1) {
			if found++; !known(asked[1], "get") {
				r.Errorf("%s reads %s, which the API lacks", name, asked[1])
			}
		}
	}
	if found < 20 {
		r.Errorf("only %d calls were found", found)
	}
}

// types: the page's types of the API are those that the API describes.
func types(r *room) {
	answer, err := http.Get(r.URL + "/openapi.json")
	r.must(err)
	defer func() { _ = answer.Body.Close() }()
	doc, err := io.ReadAll(answer.Body)
	r.must(err)
	want, err := engineroom.Types(doc)
	r.must(err)
	file := filepath.Join(sourceOfRoom, "web", engineroom.TypesFile)
	have, err := os.ReadFile(file)
	r.must(err)
	if !bytes.Equal(have, want) {
		r.Errorf("%s is not what the API describes: run make web", file)
	}
}

// The built page is what its source builds.
func TestThePageIsBuiltFromItsSource(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the page")
	}
	out := filepath.Join(t.TempDir(), "dist")
	need(t, engineroom.Build(t.Context(), filepath.Join(sourceOfRoom, "web"), out))
	built, stored := contents(t, out), contents(t, filepath.Join(sourceOfRoom, "dist"))
	for name := range built {
		if stored[name] != built[name] {
			t.Errorf("shared/engineroom/dist/%s is not what its source builds: run make web", name)
		}
	}
	for name := range stored {
		if _, ok := built[name]; !ok {
			t.Errorf("shared/engineroom/dist/%s comes from no source: run make web", name)
		}
	}
}

// contents returns the files of a folder. Compressed ones are read as what they hold.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err == nil && filepath.Ext(name) == ".gz" {
			var z *gzip.Reader
			if z, err = gzip.NewReader(bytes.NewReader(content)); err == nil {
				content, err = io.ReadAll(z)
			}
		}
		files[strings.TrimPrefix(name, dir)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
