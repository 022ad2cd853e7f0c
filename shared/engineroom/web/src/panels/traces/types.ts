import type { ExecutionItem, LaneItem, StepMessage, TraceAnswer, TraceItem, TraceStep } from "../../app/api.gen";

export type TraceRow = TraceItem;

export type Execution = ExecutionItem;

export type Message = StepMessage;

export type Step = TraceStep;

export type Hold = LaneItem;

export type Trace = TraceAnswer;
