package apicli

import (
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
)

// A statement from the future on says so.
func TestAStatementOfTheFutureIsTold(t *testing.T) {
	now, through := time.Now(), uint32(9)
	read := client.Statement{ThroughLedger: &through}
	for filter, told := range map[client.StatementFilter]bool{
		{}: false, {From: now.Add(-time.Hour)}: false, {FromLedger: 9}: false,
		{From: now.Add(time.Hour)}: true, {FromLedger: 10}: true,
	} {
		if said := Future(filter, read, now); (said != "") != told {
			t.Errorf("of %+v it says %q", filter, said)
		}
	}
}
