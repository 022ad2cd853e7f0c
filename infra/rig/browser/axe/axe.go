// Package axe finds accessibility barriers in a page, such as for people who use a keyboard, a
// screen reader or strong contrasts. It runs axe-core, which comes from npm and is pinned by a lock
// file.
package axe

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lanekeeper/lanekeeper/infra/rig/browser"
	"github.com/lanekeeper/lanekeeper/infra/rig/npm"
)

//go:embed package.json package-lock.json
var files embed.FS

// Violations returns the rules that the page breaks in its current state, each with the elements
// that break it. If axe-core can't be installed, the error is a [*servers.MissingError].
func Violations(ctx context.Context, p *browser.Page) ([]string, error) {
	dir, _, err := npm.Install(ctx, "axe", files)
	if err != nil {
		return nil, err
	}
	script, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		return nil, err
	}
	if err := p.Eval(ctx, string(script)+"; 0", nil); err != nil {
		return nil, err
	}
	var found []struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}
	if err := p.Eval(ctx, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations)`, &found); err != nil {
		return nil, err
	}
	var all []string
	for _, v := range found {
		var b strings.Builder
		fmt.Fprintf(&b, "%s (%s): %s", v.ID, v.Impact, v.Help)
		for _, n := range v.Nodes {
			fmt.Fprintf(&b, "\n\t%s\n\t%s", n.HTML, strings.ReplaceAll(n.FailureSummary, "\n", "\n\t"))
		}
		all = append(all, b.String())
	}
	return all, nil
}
