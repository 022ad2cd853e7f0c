package channel

import "github.com/lanekeeper/lanekeeper/shared/thread"

// Message is what is to be sent. Its address is one that [Check] takes, its body is
// plain text. The metadatum "subject" is that of an e-mail; over http all of them go.
type Message = thread.Message
