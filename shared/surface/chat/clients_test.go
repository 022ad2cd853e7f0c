package chat_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lanekeeper/lanekeeper/infra/rig/openai"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest/servers"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
)

// TestClientsFromNPM chat with what is here as they do with others.
func TestClientsFromNPM(t *testing.T) {
	w := onOne(t)
	w.Reason.Model = greeter{}
	cmd, err := openai.Client(t.Context(), w.url, site, siteOrigin)
	if _, missing := errors.AsType[*servers.MissingError](err); missing && !dbtest.InCI() {
		t.Skipf("NOT RUN: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// greeter is a model that says the same to everyone.
type greeter struct{}

func (greeter) Name() string { return "greeter" }

func (greeter) Generate(ctx context.Context, req llm.Request, told func(llm.Delta)) (llm.Response, error) {
	write := func(text string) {
		if told != nil {
			told(llm.Delta{Text: text})
		}
	}
	return llmtest.Writes("Hello, ", "and ", "welcome.")(ctx, req, write)
}
