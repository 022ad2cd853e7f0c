package channel

// Sign exports sign.
var Sign = sign
