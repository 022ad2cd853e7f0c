package workspace

import (
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// Settings limit the agents of a workspace. A setting that is not set, or is out of bounds, has its
// default. Otherwise a run with zero steps, for example, would fail, which is not what a kill
// switch does. The tags are the only table of all settings.
type Settings struct {
	StepsPerRun         int   `json:"steps_per_run" default:"20" min:"1" max:"1000" doc:"model calls of one run"`
	ToolRetries         int   `json:"tool_retries" default:"2" min:"0" max:"10" doc:"tries after a call that could not be made"`
	BeatModelCalls      int   `json:"beat_model_calls" default:"30" min:"0" max:"10000" doc:"model calls of one beat; 0: it calls none"`
	BeatTokens          int64 `json:"beat_tokens" default:"60000" min:"0" max:"1000000000" doc:"tokens of one beat"`
	BeatMicroUSD        int64 `json:"beat_micro_usd" default:"0" min:"0" max:"1000000000000" doc:"millionths of a dollar of one beat; 0: as many as its tokens cost"`
	DayTokens           int64 `json:"day_tokens" default:"500000" min:"0" max:"1000000000000" doc:"tokens of all beats of a day; 0: they use none"`
	DayMicroUSD         int64 `json:"day_micro_usd" default:"0" min:"0" max:"1000000000000" doc:"millionths of a dollar of all beats of a day; 0: as many as their tokens cost"`
	BeatMemories        int   `json:"beat_memories" default:"4" min:"0" max:"50" doc:"new memories of one beat"`
	ReflectHours        int   `json:"reflect_hours" default:"24" min:"0" max:"8784" doc:"hours between two reflections; 0: there are none"`
	SkillTimeout        int   `json:"skill_timeout" default:"30" min:"1" max:"900" doc:"seconds that a skill may take"`
	ApprovalHours       int   `json:"approval_hours" default:"72" min:"1" max:"8784" doc:"hours that a call waits for a person"`
	ThreadParkingHours  int   `json:"thread_parking_hours" default:"72" min:"1" max:"8784" doc:"hours that a thread waits for a person"`
	ChatVisitorMessages int   `json:"chat_visitor_messages" default:"20" min:"0" max:"10000" doc:"messages of one visitor in a minute"`
	ChatMessages        int   `json:"chat_messages" default:"300" min:"0" max:"1000000" doc:"messages of all visitors in a minute"`
	ChatTokens          int64 `json:"chat_tokens" default:"50000" min:"0" max:"1000000000" doc:"tokens of one conversation in 24 hours"`
	ChatOutputTokens    int   `json:"chat_output_tokens" default:"1024" min:"1" max:"100000" doc:"tokens of one answer to a visitor"`
	SessionQueue        int   `json:"session_queue" default:"20" min:"1" max:"1000" doc:"messages that may wait in one conversation"`
	APIRate             int   `json:"api_rate" default:"100" min:"1" max:"100000" doc:"requests of one principal in a second"`
	APIBurst            int   `json:"api_burst" default:"1000" min:"1" max:"1000000" doc:"requests of one principal at once"`
	ActivityDays        int   `json:"activity_days" default:"90" min:"4" max:"3650" doc:"days that activity is kept"`
	EventDays           int   `json:"event_days" default:"7" min:"1" max:"3650" doc:"days that events are kept"`
	InboxDays           int   `json:"inbox_days" default:"30" min:"1" max:"3650" doc:"days that the inbox is kept"`
	OutboxDays          int   `json:"outbox_days" default:"30" min:"1" max:"3650" doc:"days that the outbox is kept"`
	DeliveryDays        int   `json:"delivery_days" default:"7" min:"1" max:"3650" doc:"days that the ids of deliveries are kept"`
	HeartbeatHours      int   `json:"heartbeat_hours" default:"1" min:"1" max:"8784" doc:"hours that agents' beats are kept"`
	ResultHours         int   `json:"result_hours" default:"1" min:"1" max:"8784" doc:"hours that results are kept beside their rows"`
}

// A Setting describes one field of [Settings].
type Setting struct {
	Name              string // on the wire: "stepsPerRun"
	Default, Min, Max int64
	Doc               string
	key               string // in the column: "steps_per_run"
	field             int
}

// Schema lists all settings.
func Schema() []Setting {
	of := reflect.TypeFor[Settings]()
	out := make([]Setting, of.NumField())
	for i := range out {
		tag := of.Field(i).Tag
		key := tag.Get("json")
		out[i] = Setting{Name: camel(key), Doc: tag.Get("doc"), key: key, field: i}
		for name, to := range map[string]*int64{"default": &out[i].Default, "min": &out[i].Min, "max": &out[i].Max} {
			*to, _ = strconv.ParseInt(tag.Get(name), 10, 64) // a test checks that all can be read
		}
	}
	return out
}

// camel converts a column's key to its JSON name on the wire.
func camel(key string) string {
	words := strings.Split(key, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

func (s Setting) admits(v int64) bool { return s.Min <= v && v <= s.Max }

// Defaults returns the settings of a workspace that sets none.
func Defaults() Settings { return defaults() }

// defaults computes them once: each request of a visitor needs them.
var defaults = sync.OnceValue(func() Settings {
	var s Settings
	into := reflect.ValueOf(&s).Elem()
	for _, setting := range Schema() {
		into.Field(setting.field).SetInt(setting.Default)
	}
	return s
})

// sane replaces values that are out of bounds by their defaults.
func (s *Settings) sane() {
	into := reflect.ValueOf(s).Elem()
	for _, setting := range Schema() {
		if f := into.Field(setting.field); !setting.admits(f.Int()) {
			f.SetInt(setting.Default)
		}
	}
}

// Values returns the settings by their names on the wire.
func (s Settings) Values() map[string]int64 {
	from, out := reflect.ValueOf(s), map[string]int64{}
	for _, setting := range Schema() {
		out[setting.Name] = from.Field(setting.field).Int()
	}
	return out
}
