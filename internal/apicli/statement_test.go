package apicli

import (
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
)

// A statement that begins in the future must come with a note that says so.
func TestAStatementOfTheFutureIsTold(t *testing.T) {
	now, through := time.Now(), uint32(9)
	read := client.Statement{ThroughLedger: &through}
	for filter, told := range map[client.StatementFilter]bool{
		{}: false,
		{From: client.Bound{Time: now.Add(-time.Hour)}}: false,
		{From: client.Bound{Ledger: 9}}:                 false,
		{From: client.Bound{Time: now.Add(time.Hour)}}:  true,
		{From: client.Bound{Ledger: 10}}:                true,
	} {
		if said := Future(filter, read, now); (said != "") != told {
			t.Errorf("of %+v it says %q", filter, said)
		}
	}
}
