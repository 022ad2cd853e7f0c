// Package axe looks for barriers in a page: what keeps people out who use a keyboard, a screen
// reader or strong contrasts. It has the page checked by axe-core, of npm and pinned by a lock file.
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

// Violations are the rules that the page breaks as it is now, each with the elements that do. It
// returns a [*servers.MissingError] when axe-core is not to be had.
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
