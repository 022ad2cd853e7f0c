package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// seen is the part of the API's overview that is printed.
type seen struct {
	Sentence string `json:"sentence"`
	Verdict  struct {
		Tone  string `json:"tone"`
		Text  string `json:"text"`
		Lines []struct {
			Tone   string `json:"tone"`
			Text   string `json:"text"`
			Detail string `json:"detail"`
		} `json:"lines"`
	} `json:"verdict"`
	Beat struct {
		Phase  string     `json:"phase"`
		NextAt *time.Time `json:"nextAt"`
	} `json:"beat"`
	Today struct {
		MicroUSD int64 `json:"microUsd"`
		Tokens   int64 `json:"tokens"`
	} `json:"today"`
	Needs []struct {
		Kind  string    `json:"kind"`
		ID    string    `json:"id"`
		Title string    `json:"title"`
		Why   string    `json:"why"`
		At    time.Time `json:"at"`
	} `json:"needs"`
}

// tones are the colours of the verdict's lines.
var tones = map[string]style{"done": green, "warn": yellow, "failed": red}

// overviewVerb tells what the agent does now, whether it works, and what needs a person.
func overviewVerb(flags *flag.FlagSet) action {
	ws := workspaceFlag(flags)
	return func(ctx context.Context, c *console, args []string) error {
		if len(args) > 0 {
			return misused("overview takes nothing")
		}
		core, ask, err := c.operate(ctx, db.Workspace(*ws))
		if err != nil {
			return err
		}
		defer core.DB.Close()
		var o seen
		all, err := ask.ask(ctx, http.MethodGet, "/api/v1/overview", nil, &o)
		if err != nil {
			return err
		}
		return c.answer(all, func(w io.Writer) { o.print(newPaper(w, c.environ)) })
	}
}

func (o seen) print(p paper) {
	p.print(true, span{plain, o.Sentence + "."})
	p.print(true, span{tones[o.Verdict.Tone], o.Verdict.Text})
	for _, l := range o.Verdict.Lines {
		p.print(true, span{tones[l.Tone], fmt.Sprintf("  %-6s ", l.Tone)}, span{plain, l.Text}, span{dim, "  " + l.Detail})
	}
	if o.Beat.NextAt != nil {
		p.print(true, span{plain, "The next beat begins at " + o.Beat.NextAt.Local().Format("15:04") + "."})
	}
	p.print(true, span{plain, fmt.Sprintf("Today: %s, %s.", count(o.Today.Tokens, "token"), dollars(o.Today.MicroUSD))})
	if len(o.Needs) == 0 {
		p.print(true, span{plain, "Nothing needs you."})
		return
	}
	p.print(true, span{plain, "Needs you:"})
	for _, n := range o.Needs {
		p.print(true, span{yellow, fmt.Sprintf("  %-9s", n.Kind)}, span{plain, n.Title},
			span{dim, "  " + cmp.Or(causes[n.Why], n.Why) + "  " + n.ID})
	}
}
