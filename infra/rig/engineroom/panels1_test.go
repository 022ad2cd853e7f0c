package engineroom_test

// panels1Tests are the tests of Tasks, Agents, Objectives, Automations, Approvals and Memory.
var panels1Tests []func(*room)
