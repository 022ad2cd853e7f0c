package main

// run is a run of go test that proves promises.
type run struct {
	promises []string
	pkg      string
	tests    string // a regular expression
}

// runs are the runs of `make chaos`, the short ones first.
var runs = []run{
	{[]string{"R36"}, "./shared/lane", "^TestCallersLeaveAtRandom$"},
	{[]string{"R35"}, "./shared/db/postgres", "^TestSilentPeers$"},
	{[]string{"R35"}, "./shared/surface/heartbeat", "^TestALostAnswerDoesNotCostTheSlot$"},
	{[]string{"R36"}, "./infra/rig/network", "^TestCallersLeaveOverHTTP$"},
	{[]string{"R35"}, "./infra/rig/network", "^TestEveryRequestOfAWork$"},
	{[]string{"S6"}, "./shared/surface/chat", "^TestAFloodFromOneVisitor$"},
	{[]string{"R34"}, "./infra/local", "^TestNothingStaysStuck$"},
	{[]string{"R34"}, "./infra/rig/chaos", "^TestNothingStaysStuck$"},
	{[]string{"S6"}, "./infra/rig/chaos", "^TestBombsAndFloodsAtTheDoor$"},
	{[]string{"R11"}, "./infra/rig/chaos", "^TestPromptAcknowledgement$"},
	{[]string{"R9"}, "./infra/rig/chaos", "^TestDuplicateAndShuffledWebhooks$"},
	{[]string{"R10"}, "./infra/rig/chaos", "^TestAcceptedMeansStored$"},
	{[]string{"R9", "R10", "R11"}, "./infra/local", "^TestWebhooksAtTheRunner$"},
	{[]string{"R2"}, "./infra/rig/chaos", "^(TestFrozenPastItsLease|TestAFrozenWorkerWritesNothing)$"},
	{[]string{"R4"}, "./infra/rig/chaos", "^TestPostgresCrashes$"},
	{[]string{"R5"}, "./infra/rig/chaos", "^TestAKilledCycleFreesItsLane$"},
	{[]string{"R5"}, "./infra/rig/chaos", "^TestAKilledWorkerFreesItsTask$"},
	{[]string{"R3"}, "./infra/rig/chaos", "^TestATaskOutlivesItsInvocations$"},
	{[]string{"R8"}, "./infra/rig/chaos", "^(TestAsynchronousEventsComeAgain|TestAKeyedRequestTakesEffectOnce)$"},
	{[]string{"R1"}, "./shared/lane", "^TestHistoriesOfALaneAreLegal$"},
	{[]string{"R18"}, "./shared/budget", "^TestBudgetsAreNeverOverspent$|^TestAttemptsNeverOverspend$"},
	{[]string{"R15"}, "./shared/task", "^(TestOneWinnerPerRace|TestTransitionsFollowTheModel)$"},
	{[]string{"R17"}, "./shared/task", "^TestEveryCycleIsFound$"},
	{[]string{"R16"}, "./shared/coordinate", "^TestBackoffsSurviveDeath$"},
	{[]string{"R3"}, "./shared/coordinate", "^TestTwoCoordinatorsUnderKills$"},
	{[]string{"R17"}, "./shared/coordinate", "^TestRandomGraphsRunInOrder$"},
	{[]string{"R13"}, "./shared/thread", "^TestRandomTreesNeverInterleave$"},
	{[]string{"R14"}, "./shared/thread", "^TestTrafficUnderKills$"},
	{[]string{"R20"}, "./shared/live", "^TestConformance$"},
	{[]string{"R20"}, "./shared/live/valkey", "^TestConformance$"},
	{[]string{"R12", "R30"}, "./shared/endpoint", "^TestEventsArrive$"},
	{[]string{"R19"}, "./shared/live/valkey", "^TestARunWithoutItsRedis$"},
	{[]string{"R7"}, "./shared/surface/heartbeat", "^TestDuplicateLateAndShuffledTicks$"},
	{[]string{"R3", "R30"}, "./infra/rig/chaos", "^TestKilledAt"},
	{[]string{"R32"}, "./shared/surface/heartbeat", "^TestSixtyDaysOfBeatsStayFlat$"},
}
