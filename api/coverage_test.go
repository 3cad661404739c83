package api_test

import (
	"errors"
	"testing"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
)

func TestCoverageSaysWhichLedgersWereRead(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionRead)
	read := func(from, to uint32, verified bool) domain.LedgersRead {
		return domain.LedgersRead{Range: domain.Range{From: from, To: to}, Verified: verified}
	}
	cursor := api.Followed{
		NetworkPassphrase: "Test",
		Ledger:            30,
		Hash:              "ab",
		ClosedAtMillis:    1_790_000_000_000,
		ReadAtMillis:      1_790_000_001_000,
	}
	whole := cursor
	whole.Coverage, whole.MovesSince = domain.Coverage{read(7, 30, true)}, 12
	broken := cursor
	broken.Coverage = domain.Coverage{read(7, 9, true), read(12, 20, false), read(21, 30, true)}
	const at = `{"networkPassphrase":"Test","cursor":{"ledger":30,"hash":"ab",` +
		`"closedAt":"2026-09-21T14:13:20.000Z","readAt":"2026-09-21T14:13:21.000Z"},`
	for name, c := range map[string]struct {
		followed api.Followed
		want     string
	}{
		"nothing": {api.Followed{}, `{"networkPassphrase":null,"cursor":null,"sinceLedger":null,` +
			`"verified":false,"ranges":[],"gaps":[],"balanceMovesSince":null}`},
		"no ledger yet": {
			cursor,
			at + `"sinceLedger":null,"verified":false,"ranges":[],"gaps":[],"balanceMovesSince":null}`,
		},
		"without a gap": {whole, at + `"sinceLedger":7,"verified":true,` +
			`"ranges":[{"from":7,"to":30,"verified":true}],"gaps":[],"balanceMovesSince":12}`},
		"with a gap, and unverified": {broken, at + `"sinceLedger":12,"verified":false,` +
			`"ranges":[{"from":7,"to":9,"verified":true},{"from":12,"to":20,"verified":false},` +
			`{"from":21,"to":30,"verified":true}],"gaps":[{"from":10,"to":11}],"balanceMovesSince":null}`},
	} {
		w.followed = c.followed
		got := w.call("GET", "/v1/coverage", k, "")
		if got.StatusCode != 200 || string(got.body) != c.want {
			t.Errorf("%s: %d\ngot  %s\nwant %s", name, got.StatusCode, got.body, c.want)
		}
	}
	w.ledgersErr = errors.New("no broker")
	refused := w.call("GET", "/v1/coverage", k, "")
	wantProblem(t, refused, 503, "LEDGERS_UNAVAILABLE")
	if refused.Header.Get("Retry-After") != "2" {
		t.Errorf("%v", refused.Header)
	}
}
