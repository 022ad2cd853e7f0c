package live

// NewsKinds are the kinds of events that are published.
var NewsKinds = newsKinds
