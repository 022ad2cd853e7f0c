package channel

import "github.com/lanekeeper/lanekeeper/shared/thread"

// Message is a message to send. Its address must be valid for [Check]. Its body is plain text. The
// metadata field "subject" is the subject of an e-mail. Over http all metadata is sent.
type Message = thread.Message
