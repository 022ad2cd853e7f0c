package channel

// Sign is sign.
var Sign = sign
