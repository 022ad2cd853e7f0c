package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// TestResultsAreReadAfterTheirBatch: a method that adds a read to a batch returns a pointer to the
// result, or a function for it. Either is empty until the batch is sent. So no function reads a result
// that it has asked for before a call that may send the batch: one that gets a context, and the batch or
// its transaction.
func TestResultsAreReadAfterTheirBatch(t *testing.T) {
	results := 0
	for _, p := range packages(t) {
		if !within(p.folder(), "shared", "infra/local") {
			continue
		}
		for _, name := range p.GoFiles {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			n, early := earlyReads(file)
			results += n
			for _, pos := range early {
				t.Errorf("%s: a result is read before its batch is sent", set.Position(pos))
			}
		}
	}
	if results < 40 {
		t.Errorf("%d results of batches were looked at", results)
	}
}

// TestEarlyReadsAreFound checks the check.
func TestEarlyReadsAreFound(t *testing.T) {
	for _, c := range []struct {
		code  string
		early int
	}{
		{`var b db.Batch; x := s.Due(&b); if err := d.Read(ctx, ws, &b); err != nil { return }; use(*x)`, 0},
		{`var b db.Batch; x := s.Due(&b); use(*x); d.Read(ctx, ws, &b)`, 1},
		{`b := new(db.Batch); x := s.Rate(b); use(x()); d.Do(ctx, ws, b)`, 1},
		{`var b db.Batch; x := s.Due(&b); hook = func() int { return *x }; d.Read(ctx, ws, &b)`, 0},
		{`look(func(b *db.Batch) { x := s.Due(b); all = x })`, 0},
		{`look(func(b *db.Batch) { x := s.Due(b); all = *x })`, 1},
		{`look(func(b *db.Batch) { x = s.Due(b) }); use(*x)`, 0},
		{`x := s.Due(tx.Later()); use(*x)`, 1},
		{`x := s.Due(tx.Later()); if err := tx.Flush(ctx); err != nil { return }; use(*x)`, 0},
		{`x := s.Due(tx.Later()); s.Lock(ctx, tx, id); use(*x)`, 0},
		{`var b db.Batch; op := b.Exec(q); op.MustFind(); d.Do(ctx, ws, &b)`, 0},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() { "+c.code+" }", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if n, early := earlyReads(file); n > 1 || len(early) != c.early {
			t.Errorf("%s: %d early reads of %d results, want %d", c.code, len(early), n, c.early)
		}
	}
}

// A batchResult is a variable for the result of a read in a batch.
type batchResult struct {
	name, batch string
	in          ast.Node // the innermost function that assigns it
	at          token.Pos
}

// earlyReads returns the number of results of batches in a file, and where they are read too early.
func earlyReads(file *ast.File) (n int, early []token.Pos) {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		batches := batchNames(f)
		results := resultsOf(f, batches)
		n += len(results)
		for _, r := range results {
			sent := sendOf(f, r)
			for read := range readsOf(f, r) {
				if sent == token.NoPos || read < sent {
					early = append(early, read)
				}
			}
		}
	}
	return n, early
}

// batchNames returns the names of a function's variables and parameters that are batches.
func batchNames(f *ast.FuncDecl) (names []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			if isBatch(n.Type) {
				names = append(names, identsOf(n.Names)...)
			}
		case *ast.ValueSpec:
			if isBatch(n.Type) {
				names = append(names, identsOf(n.Names)...)
			}
		case *ast.AssignStmt:
			if call, ok := n.Rhs[0].(*ast.CallExpr); ok && len(call.Args) == 1 && nameOf(call.Fun) == "new" && isBatch(call.Args[0]) {
				names = append(names, nameOf(n.Lhs[0]))
			}
		}
		return true
	})
	return names
}

func identsOf(all []*ast.Ident) (names []string) {
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names
}

// isBatch reports whether a type is db.Batch or a pointer to it.
func isBatch(e ast.Expr) bool {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	s, ok := e.(*ast.SelectorExpr)
	return ok && nameOf(s.X) == "db" && s.Sel.Name == "Batch"
}

// nameOf returns the name of an identifier, or "".
func nameOf(e ast.Expr) string {
	if i, ok := e.(*ast.Ident); ok {
		return i.Name
	}
	return ""
}

// batchIn returns the batch that a call has as an argument: a name, or "Later" for that of a transaction.
func batchIn(call *ast.CallExpr, batches []string) string {
	for _, a := range call.Args {
		if u, ok := a.(*ast.UnaryExpr); ok && u.Op == token.AND {
			a = u.X
		}
		if slices.Contains(batches, nameOf(a)) {
			return nameOf(a)
		}
		if c, ok := a.(*ast.CallExpr); ok {
			if s, ok := c.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Later" && len(c.Args) == 0 {
				return "Later"
			}
		}
	}
	return ""
}

// resultsOf returns the variables for single results of calls that add to a batch.
func resultsOf(f *ast.FuncDecl, batches []string) (all []batchResult) {
	walk(f, func(n, in ast.Node) {
		a, ok := n.(*ast.AssignStmt)
		if !ok || len(a.Lhs) != 1 || len(a.Rhs) != 1 {
			return
		}
		call, ok := a.Rhs[0].(*ast.CallExpr)
		if !ok {
			return
		}
		if name, batch := nameOf(a.Lhs[0]), batchIn(call, batches); batch != "" && name != "" && name != "_" && name != "err" {
			all = append(all, batchResult{name, batch, in, a.End()})
		}
	})
	return all
}

// sends reports whether a call may send a batch: it gets a context, and the batch or its transaction.
func sends(call *ast.CallExpr, batch string) bool {
	if len(call.Args) == 0 || nameOf(call.Args[0]) != "ctx" {
		return false
	}
	if batch != "Later" {
		return batchIn(call, []string{batch}) == batch
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	return ok && nameOf(s.X) == "tx" || slices.ContainsFunc(call.Args, func(a ast.Expr) bool { return nameOf(a) == "tx" })
}

// sendOf returns where the batch of a result may be sent first, in the function that assigns the result.
func sendOf(f *ast.FuncDecl, r batchResult) (at token.Pos) {
	walk(f, func(n, in ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if ok && in == r.in && call.Pos() > r.at && sends(call, r.batch) && (at == token.NoPos || call.Pos() < at) {
			at = call.Pos()
		}
	})
	return at
}

// readsOf yields where the function that assigns a result reads it: *x and x().
func readsOf(f *ast.FuncDecl, r batchResult) func(yield func(token.Pos) bool) {
	return func(yield func(token.Pos) bool) {
		walk(f, func(n, in ast.Node) {
			if in != r.in || n.Pos() < r.at {
				return
			}
			switch n := n.(type) {
			case *ast.StarExpr:
				if nameOf(n.X) == r.name {
					yield(n.Pos())
				}
			case *ast.CallExpr:
				if nameOf(n.Fun) == r.name {
					yield(n.Pos())
				}
			}
		})
	}
}

// walk calls visit for each node of a function, with the innermost function that has it.
func walk(f *ast.FuncDecl, visit func(n, in ast.Node)) {
	functions := []ast.Node{f}
	var nodes []ast.Node
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if n == nil {
			last := nodes[len(nodes)-1]
			nodes = nodes[:len(nodes)-1]
			if last == functions[len(functions)-1] {
				functions = functions[:len(functions)-1]
			}
			return true
		}
		nodes = append(nodes, n)
		if l, ok := n.(*ast.FuncLit); ok {
			functions = append(functions, l)
			return true
		}
		visit(n, functions[len(functions)-1])
		return true
	})
}
