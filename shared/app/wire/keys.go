package wire

import (
	"context"

	lambdasdk "github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/reason"
)

// functions invokes the Lambda functions of skills, and those that are agents. It creates a client for each call.
type functions struct{ core *app.Core }

// Invoke implements [lambda.Invoker].
func (f *functions) Invoke(ctx context.Context, in *lambdasdk.InvokeInput, o ...func(*lambdasdk.Options)) (*lambdasdk.InvokeOutput, error) {
	cfg, err := f.core.AWS(ctx)
	if err != nil {
		return nil, err
	}
	return lambdasdk.NewFromConfig(cfg).Invoke(ctx, in, o...)
}

// waiting stores calls that wait for an approval.
type waiting struct{ *approval.Store }

// Request implements [reason.Approvals].
func (q waiting) Request(ctx context.Context, tx lane.Tx, w reason.Waiting) (string, error) {
	return q.Store.Request(ctx, tx, approval.Approval{
		Skill: w.Skill.Name, SkillID: w.Skill.ID, Arguments: w.Call.Arguments, Why: w.Why,
		Execution: w.Execution.ID, Call: w.CallID, Subject: w.Execution.Subject, Agent: w.Call.Agent,
		Surface: w.Call.Surface, Trace: w.Execution.Trace,
		Untrusted: w.Call.Untrusted,
	})
}
