package schemas

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// EncodeKeyUse encodes a row of the topic "key-uses": when a key was last used.
func EncodeKeyUse(atMillis int64) Message {
	return pack("KeyUse", "", timestamppb.New(time.UnixMilli(atMillis)))
}

// DecodeKeyUse decodes a row of the topic "key-uses".
func DecodeKeyUse(m Message) (atMillis int64, err error) {
	var at timestamppb.Timestamp
	err = unpackAs(m, "KeyUse", &at)
	return at.AsTime().UnixMilli(), err
}
