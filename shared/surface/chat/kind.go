package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/surface/chat/visitor"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// Channel is the channel of the threads of visitors.
const Channel = visitor.Channel

// Kind is the kind of conversation that visitors have with an agent.
func Kind() turn.Kind { return visitor.Kind() }

const (
	lanes  = "session:" + Channel + ":"
	hashed = "sha256:"
)

// laneOf is the lane in which one turn of a visitor runs at a time. A visitor whose name can't be
// part of a lane's has the hash of it there.
func laneOf(visitor string) lane.Name {
	if name, err := lane.ParseName(lanes + visitor); err == nil && !strings.HasPrefix(visitor, hashed) {
		return name
	}
	sum := sha256.Sum256([]byte(visitor))
	return lane.Name(lanes + hashed + hex.EncodeToString(sum[:]))
}

// visibleText returns the text that a visitor sees for the state of a turn.
func visibleText(r turn.Reply) string { return visitor.Describe(r) }
