package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestNothingIsLoggedInsideATransaction finds log lines in functions that get a transaction, and in the
// functions of the same package that they call. The hooks Begin and End of every work.Unit get one. A
// reader of such a line could wait for the locks of the transaction, and the line stays when the
// transaction is rolled back. Remote calls of the hooks fail at run time: see outbound.Bar.
func TestNothingIsLoggedInsideATransaction(t *testing.T) {
	hooks := 0
	for _, p := range packages(t) {
		if !within(p.folder(), "shared", "infra/local") {
			continue
		}
		set := token.NewFileSet()
		var files []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		n, logged := loggedInside(files)
		hooks += n
		for _, l := range logged {
			t.Errorf("%s logs inside a transaction: it reaches %s", set.Position(l.in), set.Position(l.at))
		}
	}
	if hooks < 200 {
		t.Errorf("%d functions with a transaction were looked at", hooks)
	}
}

// TestLogsInsideATransactionAreFound checks the check.
func TestLogsInsideATransactionAreFound(t *testing.T) {
	for code, found := range map[string]int{
		`func begin(ctx context.Context, s *work.Start) error { b.Log.InfoContext(ctx, "x"); return nil }`:                                                1,
		`func end(ctx context.Context, tx lane.Tx, o *work.Outcome) error { b.Log.With("a", 1).Warn("x"); return nil }`:                                   1,
		`func (s *x) end(ctx context.Context, tx *db.Tx) error { return s.fails(ctx) }; func (s *x) fails(ctx context.Context) error { slog.Error("x") }`: 1,
		`func f() { d.InTx(ctx, func(ctx context.Context, tx *db.Tx) error { r.log.ErrorContext(ctx, "x"); return nil }) }`:                               1,
		`func f() { d.InTx(ctx, func(ctx context.Context, tx *db.Tx) error { return nil }); r.log.ErrorContext(ctx, "x") }`:                               0,
		`func end(ctx context.Context, tx lane.Tx) error { return a.Log.Append(ctx, tx, e) }`:                                                             0,
		`func end(ctx context.Context, tx lane.Tx) error { o.after = func() { r.Log.Info("x") }; return nil }`:                                            0,
		`func end(ctx context.Context, tx lane.Tx) error { return a() }; func a() error { return b() }; func b() error { r.Log.Warn("x"); return nil }`:   1,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+code, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if _, logged := loggedInside([]*ast.File{file}); len(logged) != found {
			t.Errorf("%s: %d, want %d", code, len(logged), found)
		}
	}
}

// logLine is a line that is logged at a place, which a function with a transaction reaches.
type logLine struct{ in, at token.Pos }

// loggedInside returns the number of functions that get a transaction, and the lines that they log.
func loggedInside(files []*ast.File) (functions int, logged []logLine) {
	var all []*ast.FuncDecl
	for _, file := range files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				all = append(all, f)
			}
		}
	}
	for _, decl := range all {
		ast.Inspect(decl, func(n ast.Node) bool {
			kind, body := decl.Type, decl.Body
			if l, ok := n.(*ast.FuncLit); ok {
				kind, body = l.Type, l.Body
			} else if n != decl {
				return true
			}
			if !inTransaction(kind) {
				return true
			}
			functions++
			if at := logsIn(decl, body, all, map[*ast.FuncDecl]bool{}); at != token.NoPos {
				logged = append(logged, logLine{body.Pos(), at})
			}
			return true
		})
	}
	return functions, logged
}

// inTransaction reports whether a function gets a transaction.
func inTransaction(f *ast.FuncType) bool {
	return slices.ContainsFunc(f.Params.List, func(p *ast.Field) bool {
		of := p.Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		name := nameOf(of)
		if s, ok := of.(*ast.SelectorExpr); ok {
			name = s.Sel.Name
			if nameOf(s.X) == "work" && name == "Start" {
				return true
			}
		}
		return name == "Tx"
	})
}

// logsIn returns where the body of a function logs, itself or in a function of the package that it calls.
// Literals in it run later, or are looked at by themselves.
func logsIn(decl *ast.FuncDecl, body *ast.BlockStmt, all []*ast.FuncDecl, seen map[*ast.FuncDecl]bool) (at token.Pos) {
	ast.Inspect(body, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok || at != token.NoPos {
			return false
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if s, ok := call.Fun.(*ast.SelectorExpr); ok && logs(s) {
			at = call.Pos()
			return false
		}
		for _, f := range calledBy(decl, call.Fun, all) {
			if !seen[f] && at == token.NoPos {
				seen[f] = true
				at = logsIn(f, f.Body, all, seen)
			}
		}
		return true
	})
	return at
}

// calledBy returns the functions of the package that a call in a function may call: f(…) or x.f(…). If x
// is the function's receiver. Of another x it is not known.
func calledBy(decl *ast.FuncDecl, called ast.Expr, all []*ast.FuncDecl) (found []*ast.FuncDecl) {
	name, x := nameOf(called), ""
	if s, ok := called.(*ast.SelectorExpr); ok && nameOf(s.X) != "" {
		name, x = s.Sel.Name, nameOf(s.X)
	}
	of, ours := receiver(decl)
	for _, f := range all {
		_, theirs := receiver(f)
		switch {
		case f.Name.Name != name || (x == "") != (theirs == ""):
		case x == of && ours == theirs:
			return []*ast.FuncDecl{f}
		case x == of: // of a type that is embedded in the receiver's
			found = append(found, f)
		}
	}
	return found
}

// receiver returns the name and the type of a method's receiver.
func receiver(f *ast.FuncDecl) (name, of string) {
	if f.Recv == nil {
		return "", ""
	}
	r := f.Recv.List[0]
	if len(r.Names) > 0 {
		name = r.Names[0].Name
	}
	ast.Inspect(r.Type, func(n ast.Node) bool {
		if i, ok := n.(*ast.Ident); ok && of == "" {
			of = i.Name
		}
		return true
	})
	return name, of
}

var (
	logMethod = regexp.MustCompile(`^(Debug|Info|Warn|Error)(Context)?$|^Log(Attrs)?$`)
	logger    = regexp.MustCompile(`^(log|Log|slog|logger)$`)
)

// logs reports whether a function is a method of a logger: s.Log.Warn, log.Info or s.Log.With(…).Error.
func logs(f *ast.SelectorExpr) bool {
	if !logMethod.MatchString(f.Sel.Name) {
		return false
	}
	x := f.X
	for {
		switch of := x.(type) {
		case *ast.CallExpr:
			x = of.Fun
		case *ast.SelectorExpr:
			if logger.MatchString(of.Sel.Name) {
				return true
			}
			x = of.X
		default:
			return logger.MatchString(nameOf(x))
		}
	}
}
