package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// variants are the endings of files that are built for some systems only, in groups of which each
// system builds one.
var variants = []string{"_linux", "_darwin", "_unix", "_other"}

// TestEverySystemHasItsFunctions: a function of one system's file that files of all systems call
// stands in the other systems' files too. Otherwise the package builds on this system alone.
func TestEverySystemHasItsFunctions(t *testing.T) {
	groups := 0
	for _, folder := range []string{"infra/local", "shared/db/postgres", "infra/rig/servers"} {
		declared, called := map[string]map[string][]string{}, map[string]bool{}
		files, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".go")
			if strings.HasSuffix(name, "_test") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			group, system := split(name)
			if system == "" {
				ast.Inspect(parsed, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						called[id.Name] = true
					}
					return true
				})
				continue
			}
			if declared[group] == nil {
				declared[group] = map[string][]string{}
			}
			declared[group][system] = functions(parsed)
		}
		for group, systems := range declared {
			groups++
			for system, names := range systems {
				for _, name := range names {
					for other := range systems {
						if called[name] && !slices.Contains(systems[other], name) {
							t.Errorf("%s/%s%s.go has %s, which all systems call, and %s%s.go does not", folder, group, system, name, group, other)
						}
					}
				}
			}
		}
	}
	if groups < 4 {
		t.Errorf("%d groups of files were looked at", groups)
	}
}

// split returns the group and the ending of a file's name; the ending is empty for files of all
// systems.
func split(name string) (group, system string) {
	for _, v := range variants {
		if group, ok := strings.CutSuffix(name, v); ok {
			return group, v
		}
	}
	return name, ""
}

// functions returns the names of a file's functions that have no receiver.
func functions(file *ast.File) (names []string) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
			names = append(names, f.Name.Name)
		}
	}
	return names
}
