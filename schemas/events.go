package schemas

import "embed"

// Events holds a JSON Schema (draft 2020-12) of each event type, for those who
// receive deliveries: events/<type>.json, and events/common.json, to which they
// refer. They let unknown fields pass, because fields may be added; what is sent
// has none that they do not name.
//
//go:embed events/*.json
var Events embed.FS
