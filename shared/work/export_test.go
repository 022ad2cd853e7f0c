package work

// OwnError is ownError for the tests.
var OwnError = ownError
