package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// AWS is a fake of the few AWS calls that the functions make themselves.
type AWS struct {
	srv       *server
	invokes   *journal[Invoke]
	responses *journal[CustomResource]

	mu       sync.Mutex
	secrets  map[string]string
	forwards map[string]forward
	refusals map[string]*refusal
}

// refusal is an error that Lambda answers to invokes of a function, and how often it has.
type refusal struct {
	kind  string // none: invokes are accepted
	times int
}

// forward is a function that runs when another one invokes it, and the options of these invocations.
type forward struct {
	to   *Function
	opts []Option
}

// Invoke is one call of Lambda's Invoke that the fake has accepted.
type Invoke struct {
	Function string // without ARN and version
	Type     string // Event, RequestResponse or DryRun
	Payload  []byte
}

// CustomResource is the response of a CloudFormation custom resource.
type CustomResource struct {
	ID   string // the id that was passed to ResponseURL
	Body json.RawMessage
}

// StartAWS starts the fake.
func StartAWS() (*AWS, error) {
	a := &AWS{
		invokes:   newJournal[Invoke](),
		responses: newJournal[CustomResource](),
		secrets:   make(map[string]string),
		forwards:  make(map[string]forward),
		refusals:  make(map[string]*refusal),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /2015-03-31/functions/{name}/invocations", a.invoke)
	mux.HandleFunc("POST /{$}", a.secretsManager)
	mux.HandleFunc("PUT /cloudformation/{id}", a.cloudFormation)
	var err error
	if a.srv, err = serve(mux); err != nil {
		return nil, fmt.Errorf("rig: start the AWS fake: %w", err)
	}
	return a, nil
}

// Env returns the variables that point a function's AWS SDK at the fake.
func (a *AWS) Env() map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL_LAMBDA":          a.srv.url(),
		"AWS_ENDPOINT_URL_SECRETS_MANAGER": a.srv.url(),
		"AWS_REGION":                       region,
		"AWS_ACCESS_KEY_ID":                "rig",
		"AWS_SECRET_ACCESS_KEY":            "rig",
		"AWS_EC2_METADATA_DISABLED":        "true",
	}
}

// SetSecret sets the value of the secret with this id (name or ARN).
func (a *AWS) SetSecret(id, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.secrets[id] = value
}

// Forward makes the fake run f, with the options, when a function of this name is invoked. A nil f
// removes the forward. Invokes of other names are only recorded.
func (a *AWS) Forward(name string, f *Function, opts ...Option) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f == nil {
		delete(a.forwards, name)
		return
	}
	a.forwards[name] = forward{f, opts}
}

// Refuse makes Lambda answer invokes of the function of this name with status 500 and an error of that kind,
// such as ServiceException. An empty kind ends that. It returns how many invokes were refused before.
func (a *AWS) Refuse(name, kind string) (refused int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.refusals[name]
	if r == nil {
		r = &refusal{}
		a.refusals[name] = r
	}
	r.kind = kind
	return r.times
}

// Invokes returns all invokes that were accepted, in order.
func (a *AWS) Invokes() []Invoke { return a.invokes.all() }

// WaitInvoke waits until the function of this name is invoked, and returns its first invoke.
func (a *AWS) WaitInvoke(ctx context.Context, name string) (Invoke, error) {
	_, in, err := a.invokes.wait(ctx, 0, func(in Invoke) bool { return in.Function == name })
	if err != nil {
		return Invoke{}, fmt.Errorf("rig: wait for an invoke of %s: %w", name, err)
	}
	return in, nil
}

// ResponseURL returns a URL that receives the response of a custom resource.
func (a *AWS) ResponseURL(id string) string { return a.srv.url() + "/cloudformation/" + id }

// CustomResources returns all responses of custom resources in order.
func (a *AWS) CustomResources() []CustomResource { return a.responses.all() }

// Close ends the fake. It does not close the functions that it forwards to.
func (a *AWS) Close() { a.srv.close() }

// invoke serves Lambda's Invoke.
func (a *AWS) invoke(w http.ResponseWriter, r *http.Request) {
	payload, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller has disconnected
	}
	in := Invoke{Function: bareName(r.PathValue("name")), Type: r.Header.Get("X-Amz-Invocation-Type"), Payload: payload}
	if in.Type == "" {
		in.Type = "RequestResponse"
	}
	a.mu.Lock()
	f := a.forwards[in.Function]
	var kind string
	if r := a.refusals[in.Function]; r != nil && r.kind != "" {
		kind = r.kind
		r.times++
	}
	a.mu.Unlock()
	if kind != "" {
		awsError(w, http.StatusInternalServerError, kind, "Lambda has failed.")
		return
	}

	if in.Type == "Event" && f.to != nil {
		if _, err := f.to.InvokeAsync(context.WithoutCancel(r.Context()), payload, f.opts...); err != nil {
			awsError(w, http.StatusInternalServerError, "ServiceException", err.Error())
			return
		}
	}
	// The event is accepted before the invoke is recorded, so that a waiter finds it accepted.
	a.invokes.add(in)
	switch {
	case in.Type == "DryRun":
		w.WriteHeader(http.StatusNoContent)
	case in.Type == "Event":
		w.WriteHeader(http.StatusAccepted)
	case f.to == nil:
		reply(w, []byte("null"))
	default:
		a.invokeAndWait(w, r, f, payload)
	}
}

// invokeAndWait responds with the function's own response, or with its error.
func (a *AWS) invokeAndWait(w http.ResponseWriter, r *http.Request, f forward, payload []byte) {
	result, err := f.to.Invoke(r.Context(), payload, f.opts...)
	if err != nil {
		awsError(w, http.StatusInternalServerError, "ServiceException", err.Error())
		return
	}
	w.Header().Set("X-Amz-Executed-Version", "$LATEST")
	if result.FunctionError != nil {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
	}
	reply(w, result.Payload)
}

// bareName returns the name of a function from its name or its ARN, with or without a version.
func bareName(name string) string {
	if _, rest, ok := strings.Cut(name, ":function:"); ok {
		name = rest
	}
	name, _, _ = strings.Cut(name, ":")
	return name
}

// secretsManager serves Secrets Manager's GetSecretValue.
func (a *AWS) secretsManager(w http.ResponseWriter, r *http.Request) {
	if target := r.Header.Get("X-Amz-Target"); target != "secretsmanager.GetSecretValue" {
		awsError(w, http.StatusBadRequest, "UnknownOperationException", target)
		return
	}
	var in struct {
		ID string `json:"SecretId"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		awsError(w, http.StatusBadRequest, "InvalidRequestException", err.Error())
		return
	}
	a.mu.Lock()
	value, ok := a.secrets[in.ID]
	a.mu.Unlock()
	if !ok {
		awsError(w, http.StatusBadRequest, "ResourceNotFoundException", "Secrets Manager can't find the specified secret.")
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	replyJSON(w, map[string]any{
		"ARN":           in.ID,
		"Name":          in.ID,
		"SecretString":  value,
		"VersionId":     newRequestID(),
		"VersionStages": []string{"AWSCURRENT"},
		"CreatedDate":   time.Now().Unix(),
	})
}

// cloudFormation receives the response of a custom resource.
func (a *AWS) cloudFormation(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || !json.Valid(body) {
		http.Error(w, "the answer is not JSON", http.StatusBadRequest)
		return
	}
	a.responses.add(CustomResource{ID: r.PathValue("id"), Body: body})
}

func awsError(w http.ResponseWriter, status int, kind, text string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.Header().Set("X-Amzn-ErrorType", kind)
	w.WriteHeader(status)
	replyJSON(w, map[string]string{"__type": kind, "Message": text})
}
