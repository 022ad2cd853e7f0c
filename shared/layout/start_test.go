package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every cold start evaluates the package variables. So expressions are compiled at their first use,
// and this test compiles them all.
func TestNothingIsCompiledAtTheStart(t *testing.T) {
	lazy := 0
	for _, p := range packages(t) {
		if folder := p.folder(); !within(folder, "shared", "functions") || forTests(folder) || within(folder, "shared/pattern", "shared/db/dbtest") {
			continue
		}
		for _, name := range p.GoFiles {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				_, function := d.(*ast.FuncDecl)
				for call := range callsAt(d) {
					at := set.Position(call.Pos())
					switch called := calledName(call); {
					case called == "pattern.New" && function:
						t.Errorf("%s: pattern.New in a function compiles anew with every call: make it a variable of the package", at)
					case called == "pattern.New":
						lazy++
						if _, err := regexp.Compile(literal(t, call)); err != nil {
							t.Errorf("%s: %v", at, err)
						}
					case slices.Contains(eager, called) && !function:
						t.Errorf("%s: %s at the start of the program: compile it when it is first used, with pattern.New or sync.OnceValue", at, called)
					}
				}
			}
		}
	}
	if lazy == 0 {
		t.Error("no expression was looked at")
	}
}

// eager are calls that must not initialise a package variable.
var eager = []string{"regexp.MustCompile", "regexp.MustCompilePOSIX", "regexp.Compile", "template.Must", "template.New", "time.LoadLocation"}

// callsAt yields the calls of a declaration. For a variable it yields the calls that run at the
// start, and not those inside a function value.
func callsAt(d ast.Decl) func(yield func(*ast.CallExpr) bool) {
	return func(yield func(*ast.CallExpr) bool) {
		ast.Inspect(d, func(n ast.Node) bool {
			if _, later := n.(*ast.FuncLit); later {
				_, function := d.(*ast.FuncDecl)
				return function
			}
			if call, ok := n.(*ast.CallExpr); ok {
				yield(call)
			}
			return true
		})
	}
}

// calledName returns the "package.Function" of a call.
func calledName(call *ast.CallExpr) string {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// literal returns the text that a call receives as one or several literals.
func literal(t *testing.T, call *ast.CallExpr) string {
	t.Helper()
	var text strings.Builder
	ast.Inspect(call.Args[0], func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok {
			part, err := strconv.Unquote(l.Value)
			if err != nil {
				t.Fatal(err)
			}
			text.WriteString(part)
		}
		return true
	})
	return text.String()
}

// forbidden lists packages that no function may link. The SDK's credential chain looks for profiles
// and sign-ins, which do not exist on Lambda, and slows every cold start.
var forbidden = []string{
	"github.com/aws/aws-sdk-go-v2/config", "github.com/aws/aws-sdk-go-v2/feature/ec2/imds", "github.com/aws/aws-sdk-go-v2/service/sso",
	"github.com/aws/aws-sdk-go-v2/service/ssooidc", "github.com/aws/aws-sdk-go-v2/service/sts", "github.com/aws/aws-sdk-go-v2/service/signin",
}

func TestFunctionsTakeTheirCredentialsFromTheEnvironment(t *testing.T) {
	seen := 0
	for _, p := range packages(t) {
		if !within(p.folder(), "functions") {
			continue
		}
		seen++
		for _, dep := range p.Deps {
			if slices.Contains(forbidden, dep) {
				t.Errorf("%s links %s: app.FunctionAWS has what Lambda sets", p.folder(), dep)
			}
		}
	}
	if seen == 0 {
		t.Error("no function was looked at")
	}
}

// TestFunctionsLinkNoSchemas: since September 2026 the clients of AWS hold all their operations in
// variables of a package schemas. They cost each cold start up to 0.9 ms a client, and 1 MiB together.
func TestFunctionsLinkNoSchemas(t *testing.T) {
	for _, p := range packages(t) {
		if !within(p.folder(), "functions") {
			continue
		}
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, "github.com/aws/aws-sdk-go-v2/service/") && strings.HasSuffix(dep, "/schemas") {
				t.Errorf("%s links %s: go.mod is to name the last version without it", p.folder(), dep)
			}
		}
	}
}
