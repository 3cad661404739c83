package oracle

import "testing"

const passphrase = "Lumenhook test network"

func synthetic(t *testing.T) [][]byte { return nil }
