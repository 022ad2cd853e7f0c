package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
)

// step is what one journal entry adds to the conversation with a model.
type step struct {
	ExecutionID string    `json:"executionId"`
	Call        string    `json:"call"`
	System      string    `json:"system"`
	CreatedAt   time.Time `json:"createdAt"`
	Messages    []struct {
		Role  string `json:"role"`
		Text  string `json:"text"`
		Calls []struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"calls"`
		Results []struct {
			Name    string `json:"name"`
			Content string `json:"content"`
		} `json:"results"`
	} `json:"messages"`
}

// print prints all texts of a step, line by line.
func (s step) print(p paper, indent int) {
	tell := func(who, text string) {
		for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
			head := ""
			if i == 0 {
				head = who
			}
			p.paragraph(indent+10, plain, line, span{dim, strings.Repeat(" ", indent) + fmt.Sprintf("%-10s", head)})
		}
	}
	if s.System != "" {
		tell("system", s.System)
	}
	for _, m := range s.Messages {
		if m.Text != "" {
			tell(m.Role, m.Text)
		}
		for _, c := range m.Calls {
			tell("calls", c.Name+" "+c.Arguments)
		}
		for _, r := range m.Results {
			tell("result", strings.TrimSpace(s.Call+" "+r.Name)+": "+r.Content)
		}
	}
}

// what names an activity: the skill, the model with the calls that it asked for, or the tool that
// does not exist.
func (a act) what() string {
	switch a.SkillName {
	case activity.ModelCall:
		var said struct{ Calls []string }
		_ = json.Unmarshal(a.Output, &said) // without it only less is printed
		what := "model " + a.Model
		if len(said.Calls) > 0 {
			what += " asks for " + strings.Join(said.Calls, ", ")
		}
		return what
	case activity.UnknownTool:
		var asked struct{ Tool string }
		_ = json.Unmarshal(a.Input, &asked)
		return "unknown tool " + asked.Tool
	}
	return cmp.Or(a.SkillName, "activity")
}

// message returns why an activity failed, or the text of a model.
func (a act) message() string {
	var said struct{ Text string }
	if a.ErrorMessage == "" && a.SkillName == activity.ModelCall {
		_ = json.Unmarshal(a.Output, &said)
	}
	first, _, _ := strings.Cut(cmp.Or(a.ErrorMessage, said.Text), "\n")
	return first
}
