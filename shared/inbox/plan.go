package inbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// Plan is what a delivery does: the action of the rule that it matches, with the templates filled
// in. It is stored with the try, so that one that is resumed does the same.
type Plan struct {
	Skill      string         `json:"skill,omitempty"`
	Automation string         `json:"automation,omitempty"`
	Arguments  map[string]any `json:"arguments,omitempty"`
	Channel    string         `json:"channel,omitempty"`
	Address    string         `json:"address,omitempty"`
	Text       string         `json:"text,omitempty"`
	// Outside says that some of it is in the words of whoever sent the delivery.
	Outside bool `json:"outside,omitempty"`
}

// String says in a few words what is to be done.
func (p Plan) String() string {
	switch {
	case p.Skill != "":
		return "skill " + p.Skill
	case p.Automation != "":
		return "automation " + p.Automation
	case p.Channel != "":
		return clip("message to "+p.Channel+" "+p.Address, maxAction)
	}
	return ""
}

const (
	maxAction  = 290
	maxAddress = 512
	maxText    = 60 << 10
)

// PlanFor decides what a delivery does by the rules of its source. Without a rule that matches
// there is nothing to do: ok is false. An error says why the action can't be done with this
// delivery.
func PlanFor(rules []Rule, d Delivery) (p Plan, ok bool, err error) {
	body, err := decodeBody(d.Headers[contentType], d.Body)
	if err != nil {
		return Plan{}, false, err
	}
	env := environment{"body": body, "headers": d.Headers, "event": d.Event, "id": d.DeliveryID, "source": d.Source}
	rule, ok := match(rules, env)
	if !ok {
		return Plan{}, false, nil
	}
	r := render(env)
	called, arguments := rule.Then.Call()
	p = Plan{Skill: called, Automation: rule.Then.Automation}
	if m := rule.Then.Message; m != nil {
		if own(body) {
			return Plan{}, false, nil
		}
		p.Channel, p.Address, p.Text = m.Thread.Channel, strings.TrimSpace(r.text(m.Thread.Address)), r.text(m.Body)
		switch {
		case p.Address == "" || len(p.Address) > maxAddress || !storable(p.Address):
			err = errors.New("its rule's address of the thread becomes empty, too long or no text with this delivery")
		case strings.TrimSpace(p.Text) == "" || len(p.Text) > maxText:
			err = errors.New("its rule's message becomes empty or too long with this delivery")
		}
		p.Outside = true // a model reads it
		return p, true, errors.Join(err, r.err())
	}
	p.Arguments, err = r.object(arguments)
	p.Outside = r.outside
	return p, true, err
}

// own reports whether an event of Slack has the words of the app that is told of it, as
// https://api.slack.com/events/message describes: an answer to them would begin the next turn.
func own(body any) bool {
	told, _ := body.(map[string]any)
	event, _ := told["event"].(map[string]any)
	profile, _ := event["bot_profile"].(map[string]any)
	app, _ := told["api_app_id"].(string)
	return app != "" && (event["app_id"] == app || profile["app_id"] == app)
}

// Input is the arguments of a skill, over those that an automation has.
func (p Plan) Input(of json.RawMessage) (json.RawMessage, error) {
	all := map[string]any{}
	if len(of) > 0 {
		v, err := decodeJSON(of)
		if err != nil {
			return nil, fmt.Errorf("read the automation's input: %w", err)
		}
		if object, is := v.(map[string]any); is {
			all = object
		}
	}
	maps.Copy(all, p.Arguments)
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("write the arguments: %w", err)
	}
	return raw, nil
}

// clip is the beginning of a text, as the database takes it.
func clip(s string, n int) string {
	return activity.Clip(activity.Text(s), n)
}

// joined is several [problem.InvalidError]s as one.
func joined(err error) error {
	all := &problem.InvalidError{}
	many, is := err.(interface{ Unwrap() []error })
	if !is {
		return err
	}
	for _, one := range many.Unwrap() {
		if wrong, ok := errors.AsType[*problem.InvalidError](one); ok {
			all.Fields = append(all.Fields, wrong.Fields...)
		}
	}
	return all
}
