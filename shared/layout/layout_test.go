package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/lanekeeper/lanekeeper/"

// tiers are the packages of shared, the ground first: a package imports from its
// own line and those above. What it needs from further down is handed in by app,
// or by a main: app wires what a function does, and edge opens that for a sandbox.
var tiers = [][]string{
	{"problem", "intake", "trace", "span", "db", "lane", "queue"},
	{"workspace", "secret", "redact", "outbound", "outbox"},
	{"execution", "activity"},
	{"llm", "schema", "skill", "call", "reason", "work"},
	{"objective", "automation", "memory", "persona", "approval", "heal", "halt", "failure", "retain", "quiet"},
	{"project", "task", "agent", "coordinate", "budget"},
	{"thread", "channel", "inbox", "endpoint", "notice"},
	{"auth"},
	{"event", "ratelimit", "live"},
	{"observe", "overview"},
	{"parts"},
	{"turn"},
	{"surface"},
	{"api"},
	{"engineroom"},
	{"app"},
	{"edge"},
}

// leaves import nothing of ours, and everybody may import them.
var leaves = []string{"shared/capture", "shared/fault", "shared/follow", "shared/jsonscan", "shared/pattern", "shared/sse", "migrations", "events"}

// A library and the only folders that import it.
type library struct {
	name    string
	folders []string
}

var libraries = []library{
	{"github.com/jackc/pgx/", []string{"shared/db/postgres", "shared/db/migrate", "shared/db/dbtest", "shared/app", "infra"}},
	{"modernc.org/sqlite", []string{"shared/db/sqlite", "infra"}},
	{"github.com/pressly/goose/", []string{"shared/db/migrate", "infra/rig"}},
	{"github.com/redis/go-redis/", []string{"shared/live/*", "shared/db/dbtest", "infra"}},
	{"github.com/aws/aws-lambda-go/", []string{"shared/edge", "functions", "infra/rig"}},
	{"github.com/danielgtaylor/huma/", []string{"shared/api"}},
	{"github.com/aws/aws-sdk-go-v2/", []string{
		"shared/llm/*", "shared/skill/*", "shared/coordinate/*", "shared/secret/*", "shared/outbox/*", "shared/channel/*", "shared/observe/*",
		"shared/app", "shared/edge", "functions", "infra",
	}},
	{"github.com/modelcontextprotocol/", []string{"shared/api"}},
	{"github.com/netresearch/go-cron", []string{"shared/automation"}},
	{"github.com/go-jose/go-jose/", []string{"shared/auth"}},
	// Of the tests alone.
	{"pgregory.net/rapid", []string{"infra/rig"}},
	{"github.com/anishathalye/porcupine", []string{"infra/rig"}},
	{"github.com/alicebob/miniredis/", []string{"infra/rig"}},
	{"github.com/santhosh-tekuri/jsonschema/", nil},
	{"go.uber.org/goleak", []string{"shared/db/dbtest"}},
	{"github.com/google/go-cmp/", nil},
}

// drivers reach the outside world. A domain package has none of them among all it
// depends on; adapters bring one each, app puts them together.
var drivers = []string{
	"github.com/jackc/pgx/", "modernc.org/sqlite", "github.com/pressly/goose/", "github.com/redis/go-redis/", "github.com/aws/",
}

// A pkg is what go list tells of a package.
type pkg struct {
	ImportPath, Dir, Name  string
	Standard               bool
	GoFiles, Imports, Deps []string
}

// folder is where a package of ours stands, "" if it is none of ours.
func (p pkg) folder() string { return ours(p.ImportPath) }

func ours(importPath string) string {
	folder, ok := strings.CutPrefix(importPath, module)
	if !ok {
		return ""
	}
	return folder
}

// list asks go for all packages of the repository and what they depend on.
var list = sync.OnceValues(func() ([]pkg, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Name,Standard,GoFiles,Imports,Deps", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if p.folder() != "" {
			all = append(all, p)
		}
	}
})

var root = filepath.Join("..", "..")

func packages(t *testing.T) []pkg {
	t.Helper()
	all, err := list()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("go list finds no package of ours: is the test in its place?")
	}
	return all
}

// within reports whether a folder is one of the folders or stands in one. In
// "shared/live/*" stand only the folders below.
func within(folder string, folders ...string) bool {
	for _, f := range folders {
		below, only := strings.CutSuffix(f, "/*")
		if folder == below && !only || strings.HasPrefix(folder, below+"/") {
			return true
		}
	}
	return false
}

// forTests reports whether a package is for tests to import: dbtest and what is
// in it, llmtest, …
func forTests(folder string) bool {
	return slices.ContainsFunc(strings.Split(folder, "/"), func(s string) bool { return strings.HasSuffix(s, "test") })
}

// tier is the line of a package in tiers, or -1.
func tier(folder string) int {
	top, _, _ := strings.Cut(strings.TrimPrefix(folder, "shared/"), "/")
	return slices.IndexFunc(tiers, func(line []string) bool { return slices.Contains(line, top) })
}

func TestDependenciesPointUp(t *testing.T) {
	for _, p := range packages(t) {
		from := p.folder()
		for _, i := range p.Imports {
			to := ours(i)
			switch {
			case to == "" || within(to, leaves...) && !within(from, leaves...):
			case within(from, leaves...):
				t.Errorf("%s imports %s: it is a leaf and imports nothing of ours", from, to)
			case within(to, "functions"):
				t.Errorf("%s imports %s: a main is nobody's library", from, to)
			case within(to, "infra") && !within(from, "infra") && (to != "infra/rig/servers" || !forTests(from)):
				t.Errorf("%s imports %s: the product does not know what deploys and tests it", from, to)
			case forTests(to) && !forTests(from) && !within(from, "infra/rig"):
				t.Errorf("%s imports %s outside its tests", from, to)
			case within(from, "shared") && within(to, "shared") && tier(from) >= 0 && tier(to) > tier(from) && !forTests(from):
				t.Errorf("%s imports %s, which stands further down: let app hand it in", from, to)
			}
		}
		if within(from, "shared") && tier(from) < 0 && !within(from, append(leaves, "shared/layout")...) {
			t.Errorf("%s is in no tier: say where it belongs", from)
		}
	}
}

func TestLibrariesStayWhereTheyBelong(t *testing.T) {
	for _, p := range packages(t) {
		for _, i := range p.Imports {
			for _, lib := range libraries {
				if strings.HasPrefix(i+"/", strings.TrimSuffix(lib.name, "/")+"/") && !within(p.folder(), lib.folders...) {
					t.Errorf("%s imports %s: only %q do", p.folder(), i, lib.folders)
				}
			}
		}
	}
}

// domain reports whether a package of shared says what the product does, and not
// how it reaches the world. Beside app and edge, a folder within another package's
// is an adapter, except that surfaces are what the functions do.
func domain(folder string) bool {
	if !within(folder, "shared") || within(folder, "shared/app", "shared/edge") || forTests(folder) {
		return false
	}
	return strings.Count(folder, "/") == 1 || within(folder, "shared/surface")
}

func TestDomainPackagesBringNoDriver(t *testing.T) {
	for _, p := range packages(t) {
		if !domain(p.folder()) {
			continue
		}
		for _, d := range drivers {
			if i := slices.IndexFunc(p.Deps, func(dep string) bool { return strings.HasPrefix(dep+"/", d) }); i >= 0 {
				t.Errorf("%s depends on %s: take an interface, and let app hand in the adapter", p.folder(), p.Deps[i])
			}
		}
	}
}

// links are what only some functions link: what a package computes for its variables, every
// cold start of a function that links it computes.
var links = []library{
	{"modernc.org/sqlite", nil},
	{"github.com/pressly/goose/", []string{"migrate"}},
	{"github.com/danielgtaylor/huma/", serving},
	{"github.com/redis/go-redis/", serving},
	{module + "shared/api", serving},
	{module + "shared/engineroom", serving},
	{module + "shared/app/web", serving},
	{module + "shared/app/door", guarded},
	{module + "shared/app/visit", []string{"chat"}},
	{module + "shared/surface/chat/widget", []string{"chat"}},
	{module + "shared/auth", append([]string{"migrate"}, guarded...)},
	{"github.com/go-jose/go-jose/", append([]string{"migrate"}, guarded...)},
	{module + "shared/app/seed", []string{"migrate"}},
	{module + "shared/app/mail", serving},
	{"github.com/aws/aws-sdk-go-v2/service/sesv2", serving},
	{"github.com/aws/aws-sdk-go-v2/service/sns", serving},
	{module + "shared/app/wire", acting},
	{"github.com/modelcontextprotocol/", serving},
	{"github.com/jackc/pgx/v5/internal/stmtcache", []string{"migrate"}}, // of package pgx; its protocol layer does without
	{"github.com/aws/aws-sdk-go-v2/service/bedrockruntime", acting},
	{"github.com/aws/aws-sdk-go-v2/service/lambda", acting},
	{"github.com/aws/aws-sdk-go-v2/service/kms", append([]string{"webhook"}, acting...)},
}

var (
	serving = []string{"operate", "coordinator"}                             // have the API
	guarded = append([]string{"chat"}, serving...)                           // ask who sends a request
	acting  = append([]string{"heartbeat", "webhook", "worker"}, guarded...) // have an agent
)

func TestFunctionsLinkOnlyWhatTheyNeed(t *testing.T) {
	for _, p := range packages(t) {
		function, ok := strings.CutPrefix(p.folder(), "functions/")
		if !ok {
			continue
		}
		for _, dep := range p.Deps {
			if forTests(ours(dep)) {
				t.Errorf("%s links %s", p.folder(), dep)
			}
			for _, of := range links {
				if strings.HasPrefix(dep+"/", strings.TrimSuffix(of.name, "/")+"/") && !slices.Contains(of.folders, function) {
					t.Errorf("%s links %s: only %q do", p.folder(), dep, of.folders)
				}
			}
		}
	}
}

// A main that a child could read: main.go alone, under 40 lines.
func TestMains(t *testing.T) {
	functions, err := os.ReadDir(filepath.Join(root, "functions"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, f := range functions {
		dir := filepath.Join(root, "functions", f.Name())
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Errorf("functions holds a folder for each function: %v", err)
			continue
		}
		if len(entries) != 1 || entries[0].Name() != "main.go" {
			t.Errorf("functions/%s holds %v, want main.go alone", f.Name(), entries)
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(text, []byte("\n")); lines >= 40 {
			t.Errorf("functions/%s/main.go has %d lines, want fewer than 40", f.Name(), lines)
		}
	}
}

// Of shared, only app reads the environment, and only the seam asks which engine it
// has. (A fault point may stand anywhere, hence its variable.)
func TestWhoReadsTheEnvironmentAndTheDialect(t *testing.T) {
	for _, p := range packages(t) {
		folder := p.folder()
		if !within(folder, "shared") {
			continue
		}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			imported, other := selectors(file)
			for _, s := range imported {
				switch s {
				case "os.Getenv", "os.LookupEnv", "os.Environ", "os.ExpandEnv", "syscall.Getenv", "syscall.Environ":
					if !within(folder, "shared/app", "shared/fault", "shared/db/dbtest") {
						t.Errorf("%s/%s uses %s: only shared/app reads the environment", folder, name, s)
					}
				}
			}
			if slices.Contains(other, "Dialect") && !within(folder, "shared/db") {
				t.Errorf("%s/%s asks for the dialect: what differs between the engines stands in .sql files", folder, name)
			}
		}
	}
}

// selectors are what a file takes from its imports, as "package.Name", and the
// names of all other fields and methods it uses.
func selectors(file *ast.File) (imported, other []string) {
	packages := map[string]string{}
	for _, i := range file.Imports {
		name := path.Base(strings.Trim(i.Path.Value, `"`))
		if i.Name != nil {
			packages[i.Name.Name] = name
		} else {
			packages[name] = name
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && packages[x.Name] != "" {
			imported = append(imported, packages[x.Name]+"."+s.Sel.Name)
		} else {
			other = append(other, s.Sel.Name)
		}
		return true
	})
	return imported, other
}

// A package is named for what it is, not for being of use.
func TestNames(t *testing.T) {
	empty := []string{"util", "utils", "helper", "helpers", "common", "manager", "managers", "misc", "service", "services", "base", "lib"}
	for _, p := range packages(t) {
		if slices.ContainsFunc(append(strings.Split(p.folder(), "/"), p.Name), func(word string) bool {
			return slices.Contains(empty, strings.ToLower(word))
		}) {
			t.Errorf("%s, package %s: a name that says nothing", p.folder(), p.Name)
		}
	}
}

// The top of the repository is short. What git ignores does not count.
func TestTopLevel(t *testing.T) {
	allowed := []string{
		"README.md", "LICENSE", "SECURITY.md", "Makefile", "go.mod", "go.sum", "template.yaml", "samconfig.toml",
		"functions", "events", "migrations", "infra", "shared",
	}
	for _, name := range topLevel(t) {
		if !strings.HasPrefix(name, ".") && !slices.Contains(allowed, name) {
			t.Errorf("%s stands at the top of the repository", name)
		}
	}
}

func topLevel(t *testing.T) (names []string) {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "--directory")
	cmd.Dir = root
	if out, err := cmd.Output(); err == nil {
		for line := range strings.Lines(string(out)) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), "/")
			names = append(names, name)
		}
		return slices.Compact(slices.Sorted(slices.Values(names)))
	}
	entries, err := os.ReadDir(root) // not a clone
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "bin" {
			names = append(names, e.Name())
		}
	}
	return names
}
