package schemas

import "embed"

// Events holds a JSON Schema (draft 2020-12) of each event type, for those who receive
// deliveries: events/<type>.json, and events/common.json, to which they refer. They allow
// unknown fields, because fields may be added; what is sent has only fields that they name.
//
//go:embed events/*.json
var Events embed.FS
