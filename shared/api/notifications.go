package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/lanekeeper/lanekeeper/shared/endpoint"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	tenant "github.com/lanekeeper/lanekeeper/shared/workspace"
)

// notificationItem has people told of events over a channel.
type notificationItem struct {
	Channel string   `json:"channel" enum:"http,slack,email,sms,log"`
	Address string   `json:"address" minLength:"1" maxLength:"2048" doc:"Such as the id of a channel of Slack, or an e-mail address"`
	Events  []string `json:"events" minItems:"1" maxItems:"50" nullable:"false" enum:"task.status_changed,task.dependency_cycle,agent.stale,budget.warning,budget.exhausted,approval.requested,lane.wait_warning,heartbeat.completed,*"`
}

// notifications is the name of the one setting that is not a number.
const notifications = "notifications"

// workspaceSettings are the settings of a workspace on the wire: numbers, and notifications if there
// are any.
type workspaceSettings struct {
	values        map[string]int64
	notifications []tenant.Notification
}

func settingsOf(w tenant.Workspace) workspaceSettings {
	return workspaceSettings{w.Settings.Values(), w.Notifications}
}

// MarshalJSON implements [json.Marshaler].
func (s workspaceSettings) MarshalJSON() ([]byte, error) {
	out := map[string]any{}
	for name, v := range s.values {
		out[name] = v
	}
	if len(s.notifications) > 0 {
		out[notifications] = s.notifications
	}
	return json.Marshal(out)
}

// Schema implements [huma.SchemaProvider].
func (workspaceSettings) Schema(r huma.Registry) *huma.Schema { return settingsSchema(r, false) }

// settingsSchema describes numbers under any name and notifications.
func settingsSchema(r huma.Registry, nullable bool) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject,
		Properties: map[string]*huma.Schema{notifications: {
			Type: huma.TypeArray, Items: r.Schema(reflect.TypeFor[notificationItem](), true, "Notification"),
			MaxItems: new(tenant.MaxNotifications), Nullable: nullable,
			Description: "Who is told of events, over which channel",
		}},
		AdditionalProperties: &huma.Schema{Type: huma.TypeInteger, Format: "int64", Nullable: nullable},
	}
}

// settingsPatch are settings to change.
type settingsPatch struct {
	values        map[string]*int64
	notifications *[]tenant.Notification // nil: unchanged
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *settingsPatch) UnmarshalJSON(raw []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	if given, ok := all[notifications]; ok {
		p.notifications = &[]tenant.Notification{}
		if err := json.Unmarshal(given, p.notifications); err != nil {
			return err
		}
	}
	p.values = map[string]*int64{}
	for name, given := range all {
		if name == notifications {
			continue
		}
		var v *int64
		if err := json.Unmarshal(given, &v); err != nil {
			return err
		}
		p.values[name] = v
	}
	return nil
}

// Schema implements [huma.SchemaProvider].
func (settingsPatch) Schema(r huma.Registry) *huma.Schema { return settingsSchema(r, true) }

// notifiable checks that notifications can be sent, and normalizes their events.
func (s *server) notifiable(all *[]tenant.Notification) error {
	if all == nil {
		return nil
	}
	for i, n := range *all {
		at := fmt.Sprintf("settings.notifications[%d]", i)
		if wrong, is := errors.AsType[*problem.InvalidError](s.Reachable(n.Channel, n.Address)); is {
			return problem.Invalid(at+"."+wrong.Fields[0].Field, "%s", wrong.Fields[0].Problem)
		}
		filter, err := endpoint.CheckEvents(at+".events", n.Events)
		if err != nil {
			return err
		}
		(*all)[i].Events = filter
	}
	return nil
}
