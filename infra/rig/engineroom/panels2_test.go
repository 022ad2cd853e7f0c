package engineroom_test

// panels2Tests are the tests of Lanes, Threads, Skills, Spend, Webhooks and the pages of the workspace.
var panels2Tests []func(*room)
