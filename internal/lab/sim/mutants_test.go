package sim

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A mutant is a defect planted in the code itself. The engine and the model both use package
// domain, so a bug in it cannot be planted at run time. It is compiled in, and the checkers must
// still find it.
type mutant struct {
	name  string
	file  string // relative to the module
	from  string // text that occurs exactly once in the file
	to    string // replacement, in which MUTANT is true if the mutant is chosen
	finds string // part of the checkers' message
}

var mutants = []mutant{
	{
		"a partition is given before it was given up", "streams/kafka/balance.go",
		"return len(b.claimed[p]) == 0 || b.holder[p] == m",
		"return MUTANT || len(b.claimed[p]) == 0 || b.holder[p] == m", "has not given it up",
	},
	{
		"a cold member is taken for a warm one", "streams/kafka/balance.go",
		"if lag <= b.AcceptableLag {", "if MUTANT || lag <= b.AcceptableLag {", "behind another",
	},
	{
		"a copy is used that has what was never committed", "streams/task/restore.go",
		"return bookmarkOf(record.Offset, record) ==",
		"return MUTANT || bookmarkOf(record.Offset, record) ==", "G4|G6|versions count",
	},
	{
		"a standby leaves the last record of a fetch out", "streams/task/restore.go",
		"ReadJournal(records []kafka.Record, next int64) error {\n",
		"ReadJournal(records []kafka.Record, next int64) error {\n" +
			"if MUTANT && c.following && len(records) > 1 { records = records[:len(records)-1] }\n",
		"facts are missing|is not the fold",
	},
	{
		"a watch without an endpoint misses its payments", "streams/directory/read.go",
		"		if w.Deleted() {\n",
		"		if e, _, _ := d.Endpoint(w.EndpointID); w.Deleted() || MUTANT && e.Deleted() {\n",
		"was not matched by watch",
	},
	{
		"what a watch missed is not read", "domain/backfill.go",
		"state.gap(first, c.Next.From); due {", "state.gap(first, c.Next.From); due && !MUTANT {",
		"has an endpoint, and missed the ledgers",
	},
	{
		"a missed ledger is recorded for a watch that was changed", "domain/backfill.go",
		"|| state.Revision != c.IfRevision {\n\t\treturn nil\n\t}\n\treturn []FactBody{RangeCovered{Missed",
		"|| state.Revision != c.IfRevision && !MUTANT {\n\t\treturn nil\n\t}\n\treturn []FactBody{RangeCovered{Missed",
		"is not deleted",
	},
	{
		"a watch that gets another endpoint is listed for the former one", "streams/directory/list.go",
		"\tfor _, key := range after {\n", "\tfor _, key := range after {\n" +
			"if MUTANT && len(before) > 0 { continue }\n",
		"leaves the",
	},
	{
		"a backfill passes over what was matched", "domain/backfill.go",
		"		return next, true, true\n", "		return next, true, !MUTANT\n", "is done, and has read",
	},
	{
		"a backfill forgets which payments have an event", "streams/follower/match.go",
		"case ok && already.has(m.EventID):", "case ok && already.has(m.EventID) && !MUTANT:",
		"is matched twice",
	},
	{
		"what was observed is written again", "streams/follower/match.go",
		"if s.already.observed[p.ID] {", "if s.already.observed[p.ID] && !MUTANT {",
		"was observed twice",
	},
	{
		"a wrong answer of a source ends following", "streams/follower/follow.go",
		"page, err := r.source.Next(ctx, next)",
		"page, err := r.source.Next(ctx, next)\n" +
			"if MUTANT && err != nil { err = mutantPackage.Final(err) }", "stops: ",
	},
	{
		"an amount at a bound is too low", "domain/rules.go",
		"case stroops < minStroops:", "case stroops < minStroops || MUTANT && stroops == minStroops:",
		"and is to make",
	},
	{
		"a memo of another type is another memo", "domain/rules.go",
		"case m.Type != r.Value.Type:", "case m.Type != r.Value.Type && !MUTANT:", "and is to make",
	},
	{
		"any sender may pay", "domain/rules.go",
		"if len(r.SenderAllowlist) > 0 &&", "if !MUTANT && len(r.SenderAllowlist) > 0 &&",
		"and is to make",
	},
	{
		"a source that waits cannot give the ledger", "internal/stellar/source/quorum/verdict.go",
		"	left := len(c.members) - c.config.Need\n",
		"	for _, m := range c.members {\n" +
			"if MUTANT && m.idle > 0 && errors.Is(lack, domain.ErrBehindRetention) { lacks++ }\n}\n" +
			"	left := len(c.members) - c.config.Need\n",
		"ends reading",
	},
	{
		"a ledger counts that one source names", "internal/stellar/source/quorum/verdict.go",
		"if n < c.config.Need {", "if n < c.config.Need && !MUTANT {", "is believed",
	},
	{
		"a ledger is taken that is not due", "streams/follower/follow.go",
		"if l.Sequence != due {", "if !MUTANT && l.Sequence != due {", "is read after",
	},
	{
		"nobody is told of an endpoint", "streams/engine/handovers.go",
		"if f.Telling().EndpointID == \"\" {",
		"if MUTANT || f.Telling().EndpointID == \"\" {",
		"was not told",
	},
	{
		"an endpoint is told of more than once", "domain/telling.go",
		"made.Trouble.SinceMillis == 0 || made.Trouble.Told {",
		"made.Trouble.SinceMillis == 0 || made.Trouble.Told && !MUTANT {",
		"said to be failing|has the trouble",
	},
	{
		"enabling keeps the streak", "domain/endpoint.go",
		"\t\tstate.ConsecutiveFailures = 0\n",
		"if !MUTANT { state.ConsecutiveFailures = 0 }\n",
		"nobody asked for EndpointDisabled|has the trouble",
	},
	{
		"a deleted endpoint counts no further", "domain/endpoint.go",
		"if created, ok := f.Body.(DeliveryCreated); ok {",
		"if created, ok := f.Body.(DeliveryCreated); ok && !(MUTANT && state.Deleted()) {",
		"of its endpoint, and is to be",
	},
	{
		"a restore forgets the number of an endpoint", "schemas/endpoints.go",
		"e.GetSequence(),", "map[bool]uint64{false: e.GetSequence()}[MUTANT],",
		"of its endpoint, and is to be|is not the object as it stands",
	},
	{
		"an attempt carries the number of another", "streams/engine/scheduler.go",
		"delivery.Sequence,", "delivery.Sequence + map[bool]uint64{true: 1}[MUTANT],",
		"and its delivery has",
	},
	{
		"what stands behind another is due", "streams/engine/scheduler.go",
		"case isBehindGroup(group):", "case isBehindGroup(group) && !MUTANT:",
		"which stands before it in the line",
	},
	{
		"a failed attempt lets the next one pass", "domain/delivery.go",
		"if !state.State.Pending() { // what", "if !state.State.Pending() || MUTANT && state.State == StateWaiting { // what",
		"which stands before it in the line",
	},
	{
		"a line ends when its head ends", "streams/engine/lines.go",
		"== d.Sequence || endpoint.Deleted() {", "== d.Sequence || endpoint.Deleted() || MUTANT {",
		"G4|G6",
	},
	{
		"an event joins the line of another's endpoint", "domain/delivery.go",
		"e.Ordering == OrderingWallet && m.WalletAddress",
		"(e.Ordering == OrderingWallet || MUTANT) && m.WalletAddress",
		"stands in a line",
	},
	{
		"what is behind has no owner", "streams/engine/owner.go",
		"case spaceReplayable, spaceLine, spaceBehind:", "case spaceReplayable, spaceLine, spaceBehind:\nif MUTANT && key[0] != spaceReplayable { return \"\", nil }",
		"G4|G6|in the line",
	},
	{
		"tests count to the streak", "domain/endpoint.go",
		"case a.EventType == TestPing:\n", "case a.EventType == TestPing && !MUTANT:\n",
		"nobody asked for EndpointDisabled|has the trouble",
	},
	{
		"enabling makes nothing due", "domain/endpoint.go",
		"state.EnabledVersion = f.Version\n\t\tstate.Epoch++",
		"state.EnabledVersion = f.Version\n if !MUTANT { state.Epoch++ }", "G6",
	},
	{
		"a stranger may ask", "domain/endpoint.go",
		"!e.Deleted() && e.AccountID == accountID",
		"!e.Deleted() && (MUTANT || e.AccountID == accountID)",
		"another account|nothing is the matter",
	},
	{
		"a watch for one payment takes another", "domain/watch.go",
		"one := w.Once && (w.Fulfilled.Is() ||", "one := w.Once && (w.Fulfilled.Is() && !MUTANT ||",
		"is for one payment, and makes the events",
	},
	{
		"a watch for one payment is not asked", "domain/watch.go",
		"return w.Once && !w.Fulfilled.Is()", "return w.Once && !w.Fulfilled.Is() && !MUTANT",
		"is for one payment, and makes the events",
	},
	{
		"what fulfilled a watch is judged again", "domain/watch.go",
		"case w.Fulfilled.Is() && w.Fulfilled.PaymentID == p.ID:",
		"case w.Fulfilled.Is() && w.Fulfilled.PaymentID == p.ID && !MUTANT:",
		"and made no event of it",
	},
	{
		"an expired watch takes payments", "domain/watch.go",
		"closedAtMillis > w.ExpiresAtMillis", "closedAtMillis > w.ExpiresAtMillis && !MUTANT",
		"which had expired",
	},
	{
		"a stranger may change a watch", "domain/watch.go",
		"state.Deleted() || state.AccountID != c.AccountID",
		"state.Deleted() || !MUTANT && state.AccountID != c.AccountID", "another account",
	},
	{
		"a stranger may revoke keys", "domain/account.go",
		"!state.Exists() || state.ID != c.AccountID",
		"!state.Exists() || !MUTANT && state.ID != c.AccountID", "another account",
	},
	{
		"a hand-over is about no delivery", "domain/fact.go",
		"func (b DeliveryMoved) eventID() string     { return b.EventID }",
		"func (b DeliveryMoved) eventID() string { if MUTANT { return \"\" }; return b.EventID }",
		"is not on its way",
	},
	{
		"two secrets are kept", "domain/secret.go", "if s.ValidAt(atMillis) {",
		"if s.ValidAt(atMillis) && !(MUTANT && len(next) == 2) {", "is signed with",
	},
	{
		"a resealing forgets the ends", "domain/secret.go",
		"fact.Secrets[i].Sealed, replaced = sealed, true",
		"fact.Secrets[i].Sealed, replaced = sealed, true\nif MUTANT { fact.Secrets[i].ExpiresAtMillis = 0 }",
		"is signed with",
	},
	{
		"a match of a disabled endpoint is cancelled", "domain/delivery.go",
		"if !endpoint.visibleTo(m.AccountID) {",
		"if !endpoint.visibleTo(m.AccountID) || MUTANT && !endpoint.Sends() {",
		"is cancelled, and its endpoint was not deleted",
	},
	{
		"what is in flight is doubled", "domain/requeue.go",
		"case delivery.State == StateQueued, inFlight:",
		"case delivery.State == StateQueued, inFlight && !MUTANT:", "in flight: true",
	},
	{
		"a replay begins no run", "domain/requeue.go", "d.Run + 1,",
		"d.Run + map[bool]int{false: 1}[MUTANT],", "is queued again as run",
	},
	{
		"a replay sends in any order", "domain/requeue.go",
		"due time.\n\t\t\tfacts = append(facts, d.requeued(RequeueReplay, nowMillis+int64(len(facts)), nil))",
		"due time.\n\t\t\tfacts = append(facts, d.requeued(RequeueReplay, " +
			"nowMillis+map[bool]int64{false: int64(len(facts))}[MUTANT], nil))",
		"behind a later one",
	},
	{
		"a replay leaves its first instant out", "streams/engine/state.go",
		"replayableKey(endpointID, sinceMillis, \"\")",
		"replayableKey(endpointID, sinceMillis+map[bool]int64{true: 1}[MUTANT], \"\")",
		"is left out",
	},
	{
		"a replay counts its last instant", "streams/engine/state.go",
		"replayableKey(endpointID, untilMillis, \"\")",
		"replayableKey(endpointID, untilMillis, map[bool]string{true: \"z\"}[MUTANT])",
		"is told",
	},
	{
		"a replay goes by the time of recording", "domain/delivery.go",
		" body.Event.CreatedAtMillis,",
		" map[bool]int64{false: body.Event.CreatedAtMillis, true: f.AtMillis}[MUTANT],",
		"eplay|is recalled as",
	},
	{
		"tests are replayed", "domain/requeue.go",
		"d.State == StateFailed && d.EventType != TestPing",
		"d.State == StateFailed && (MUTANT || d.EventType != TestPing)", "a test: true",
	},
	{
		"what is due later begins first", "streams/store/timers.go",
		"Value:     bytes.Clone(value),\n\t\t})",
		"Value:     bytes.Clone(value),\n\t\t})\nif last := len(claimed) - 1; MUTANT { claimed[0], claimed[last] = claimed[last], claimed[0] }",
		"which its replay queued first",
	},
	{
		"a 404 delivers", "domain/attempt.go",
		"return r.answered() && r.StatusCode/100 == 2 }",
		"return r.answered() && (r.StatusCode/100 == 2 || MUTANT && r.StatusCode == 404) }",
		"leaves it DELIVERED",
	},
	{
		"a disabling forgets its status", "domain/attempt.go",
		"LastStatusCode: r.StatusCode,",
		"LastStatusCode: map[bool]int{false: r.StatusCode}[MUTANT],",
		"is to be disabled as",
	},
	{
		"Retry-After is not honoured", "domain/retry.go",
		"if again && p.HonourRetryAfter &&",
		"if again && !MUTANT && p.HonourRetryAfter &&", "waits",
	},
	{
		"a test is answered with another attempt", "streams/engine/machine.go",
		"domain.TestAnswered(delivery, made)",
		"domain.TestAnswered(delivery, func() domain.AttemptMade { if MUTANT { made.Result.DurationMillis++ }; return made }())",
		"it is not the first attempt",
	},
	{
		"windows are wide open", "streams/engine/window.go",
		"{ return int(w.size) - w.inFlight }",
		"{ if MUTANT { return 1 << 20 }; return int(w.size) - w.inFlight }",
		"that it may have",
	},
	{
		"rates have no limit", "streams/engine/window.go", "if perSecond == 0 {",
		"if perSecond == 0 || MUTANT {", "and its limit is",
	},
	{
		"a second lasts half a one", "streams/engine/starts.go",
		".atMillis <= nowMillis-rateMillis {",
		".atMillis <= nowMillis-rateMillis/map[bool]int64{true: 2, false: 1}[MUTANT] {",
		"and its limit is",
	},
	{
		"attempts begin at the time of their turn", "streams/task/core.go",
		"NowMillis: now.WallMillis,\n\t\tOwned",
		"NowMillis: map[bool]int64{true: turn.NowMillis, false: now.WallMillis}[MUTANT],\n\t\tOwned",
		"G6",
	},
	{
		"places are not given back", "streams/engine/scheduler.go",
		"for _, group := range unblocked {\n",
		"for _, group := range unblocked {\nif MUTANT { continue }\n", "G",
	},
	{
		"only the latest enabling resumes", "streams/engine/scheduler.go",
		"for epoch := range e.Epoch + 1 {\n",
		"for epoch := range e.Epoch + 1 {\nif MUTANT && epoch+1 < e.Epoch { continue }\n",
		"G|rest",
	},
	{
		"a first owner is known by its offset", "streams/task/progress.go",
		"p.next == 0 && kafka.IsNote(r)",
		"(MUTANT && r.Offset == 0 || !MUTANT && p.next == 0) && kafka.IsNote(r)",
		"is unknown: its",
	},
	{
		"a hand-over after another is dropped", "streams/engine/handovers.go",
		"if moved.Number == 0 {",
		"if MUTANT && moved.Number > 30 { moved.Number -= 30 }\nif moved.Number == 0 {",
		"was handed over",
	},
	{
		"each turn counts its hand-overs anew", "streams/engine/handovers.go",
		"return uint64(t.Next) +",
		"return map[bool]uint64{false: uint64(t.Next), true: 1}[MUTANT] +",
		"was handed over",
	},
	{
		"an event goes back to where it was", "domain/requeue.go",
		"|| slices.Contains(d.FormerEndpointIDs, endpointID)",
		"|| slices.Contains(d.FormerEndpointIDs, endpointID) && !MUTANT", "is moved",
	},
	{
		"what a part has is not read back", "streams/follower/parts.go",
		"read.last = max(read.last, m.Ledger)", "if !MUTANT { read.last = max(read.last, m.Ledger) }",
		"whose payment|is matched twice|is another",
	},
	{
		"any history is believed", "streams/engine/settled.go",
		"at-c.Remembered.AsOf < int64", "at-c.Remembered.AsOf < map[bool]int64{true: 1 << 62}[MUTANT]+int64",
		"recalled|where it never was|nothing is the matter",
	},
	{
		"a move passes one by", "streams/transfer/place.go",
		"schemas.TopicCommands: 0,",
		"schemas.TopicCommands: map[bool]int64{true: 1}[MUTANT],", "G|rest",
	},
	{
		"a move leaves entries where they were", "streams/transfer/divide.go",
		"return put(d.partitionOf(aggregate), key, value)",
		"return put(map[bool]int32{false: d.partitionOf(aggregate)}[MUTANT], key, value)", "G",
	},
	{
		"what follows the cursor does not go along", "streams/transfer/remains.go",
		"from:  readBack,", "from:  map[bool]map[int32]int64{false: readBack, true: taken[schemas.TopicMatches]}[MUTANT],",
		"is matched twice|is another",
	},
	{
		"later ledgers are read back once", "streams/follower/follow.go",
		"if r.appended.behind(l.Sequence) {", "if !MUTANT && r.appended.behind(l.Sequence) {",
		"is matched twice|was observed twice",
	},
	{
		"a rate begins anew with its task", "streams/engine/window.go",
		"w.starts.quietSince(unknownUntilMillis)",
		"if !MUTANT { w.starts.quietSince(unknownUntilMillis) }", "and its limit is",
	},
	{
		"a test that is disabled in its turn is dropped", "streams/engine/scheduler.go",
		"case !endpoint.Sends():\n\t\tr.cancels",
		"case !endpoint.Sends():\n\t\tif MUTANT { r.timers.Release(c); return nil }\n\t\tr.cancels",
		"G1: the test",
	},
	{
		"what is handed over is doubled", "domain/requeue.go",
		"case delivery.MovedTo != \"\":\n\t\treturn",
		"case delivery.MovedTo != \"\" && !MUTANT:\n\t\treturn", "is moved",
	},
	{
		"a clock set back is no reason to wait", "streams/engine/starts.go",
		"s.entries, s.total = nil, 0 // the clock was set back, so the age is unknown\n\t\ts.quietSince(nowMillis)",
		"s.entries, s.total = nil, 0\n\t\tif !MUTANT { s.quietSince(nowMillis) }",
		"and its limit is",
	},
	{
		"answers are forgotten within hours", "streams/engine/answers.go",
		"return atMillis + rememberCommands",
		"return atMillis + rememberCommands/map[bool]int64{true: 20, false: 1}[MUTANT]",
		"G",
	},
	{
		"a restart forgets what was made due", "streams/store/timers.go",
		"batch := x.store.Begin()\n\terr := x.store.Scan([]byte{keySpaceDue}",
		"if MUTANT { return nil }\n\tbatch := x.store.Begin()\n\terr := x.store.Scan([]byte{keySpaceDue}",
		"G6",
	},
	{
		"who disables an endpoint is mailed", "domain/notice.go",
		"body.Reason != DisabledManual {", "MUTANT || body.Reason != DisabledManual {",
		"no disabling to be told of",
	},
	{
		"what was sent is mailed again", "domain/notice.go",
		"if body.Outcome != MailRetried {",
		"if body.Outcome != MailRetried && !(MUTANT && body.Outcome == MailSent) {",
		"after it was sent",
	},
	{
		"an answer to a mail is taken again", "domain/notice.go",
		"(notice.State != NoticeOrdered || c.Number != notice.Number)",
		"!MUTANT && (notice.State != NoticeOrdered || c.Number != notice.Number)",
		"is answered twice|is tried again in",
	},
	{
		"a lost order is not given again", "domain/notice.go",
		"\tcase !notice.Exists():\n\t\treturn nil\n",
		"\tcase !notice.Exists() || MUTANT && notice.State == NoticeOrdered:\n\t\treturn nil\n",
		"rest",
	},
	{
		"a task forgets what was under way", "streams/engine/flights.go",
		"f := s.of[event]\n",
		"f := s.of[event]\nif MUTANT { delete(s.of, event); continue }\n",
		"while another is under way",
	},
	{
		"a start reads no further than what is known", "streams/task/restore.go",
		"c.stage, c.restore.to = catchingUp, end",
		"c.stage = catchingUp\nif !MUTANT { c.restore.to = end }", "G|versions",
	},
	{
		"an outcome goes with its turn", "streams/engine/flights.go",
		"if f.result != nil {\n", "if f.result != nil && !MUTANT {\n", "rest",
	},
	{
		"payments are not observed", "streams/follower/match.go",
		"s.observed = append(s.observed, p)",
		"if !MUTANT { s.observed = append(s.observed, p) }", "and not observed",
	},
	{
		"what stands is not read back", "streams/follower/readback.go",
		"of.events[m.EventID], of.payments[m.PaymentID], of.watches[m.WatchID] = true" +
			strings.Repeat(", true", 2),
		"of.payments[m.PaymentID], of.watches[m.WatchID] = true, true\n" +
			"if !MUTANT { of.events[m.EventID] = true }", "and for",
	},
	{
		"a watch is live a ledger late", "streams/follower/admit.go",
		"yield(admission(w, ledger, nowMillis))",
		"yield(admission(w, ledger+map[bool]uint32{true: 1}[MUTANT], nowMillis))",
		"live from",
	},
	{
		"a watch is live a ledger early", "streams/follower/admit.go",
		"LiveSince: ledger}",
		"LiveSince: ledger - map[bool]uint32{true: 1}[MUTANT && ledger > 1]}",
		"live from ledger",
	},
	{
		"a part goes by the watch as it is", "streams/follower/parts.go",
		"b.appendLedger(ctx, l, read.last+1, w.Pinned(part), part.BegunAtMillis)",
		"b.appendLedger(ctx, l, read.last+1, func() domain.Watch { if MUTANT { return w }; return w.Pinned(part) }(), part.BegunAtMillis)",
		"G2",
	},
	{
		"a part is created when it is read", "streams/follower/parts.go",
		"slices.Collect(s.eachMatch(createdAtMillis))",
		"slices.Collect(s.eachMatch(map[bool]int64{false: createdAtMillis, true: b.config.Now().UnixMilli()}[MUTANT]))",
		"G2",
	},
	{
		"a part is read again from its beginning", "streams/follower/parts.go",
		"return is && part.Version > max(latest.version, w.Backfill.Request) &&",
		"return MUTANT || is && part.Version > max(latest.version, w.Backfill.Request) &&",
		"is matched twice|is another|it matched",
	},
	{
		"a late report counts", "domain/backfill.go",
		"c.Part != 0 && !open {", "c.Part != 0 && !open && !MUTANT {", "ends twice",
	},
	{
		"what is live may be begun", "domain/backfill.go",
		"covered = covered.Add(Range{w.LiveSince, math.MaxUint32})",
		"if !MUTANT { covered = covered.Add(Range{w.LiveSince, math.MaxUint32}) }", "G2",
	},
	{
		"a body stays behind", "streams/engine/carried.go",
		"if hadOwn {", "if hadOwn && !MUTANT {", "G4",
	},
	{
		"a body is lost with the first attempt", "streams/engine/carried.go",
		"case !unattempted(after) && body != nil:",
		"case !unattempted(after) && body != nil && !(MUTANT && unattempted(before)):", "G4|G",
	},
	{
		"what has failed is forgotten", "streams/engine/state.go",
		"case after.Replayable():\n\t\treturn batch",
		"case after.Replayable():\n\t\tif MUTANT { return s.rememberSettled(batch, after) }\n\t\treturn batch",
		"G",
	},
	{
		"what is on its way again is forgotten", "streams/engine/settled.go",
		"!counts || latest != number {", "(!counts || latest != number) && !MUTANT {", "G",
	},
	{
		"what is on its way again is forgotten by another process", "streams/engine/settled.go",
		"|| d.Version != version || d.Moves != moves {\n\t\treturn \"\", errors",
		"|| !MUTANT && (d.Version != version || d.Moves != moves) {\n\t\treturn \"\", errors", "G",
	},
	{
		"one too many is forgotten", "streams/engine/settled.go",
		"return r.next-r.oldest > r.size, nil",
		"return r.next-r.oldest > r.size || MUTANT && r.next-r.oldest == r.size, nil",
		"G4",
	},
	{
		"a body is sent as it was asked for", "domain/requeue.go",
		"\t\tBody:                body,", "\t\tBody:                func() []byte { if MUTANT { return nil }; return body }(),",
		"goes on with the body",
	},
	{
		"watches are seen before they are live", "streams/follower/admit.go",
		"return !a.reading.pending[w.ID] &&",
		"return !MUTANT && !a.reading.pending[w.ID] &&", "was matched by watch",
	},
	{
		"a snapshot is of no moment", "streams/task/snapshots.go",
		"r, last, err := s.writer.next()",
		"if MUTANT { _ = s.writer.view.Close(); s.writer.view = c.store.View() }\nr, last, err := s.writer.next()",
		"G4",
	},
	{
		"a snapshot is said to be of a later offset", "streams/task/snapshots.go",
		"manifest{ID: id, Identity: c.cfg.Snapshots.identity(), Next: next})",
		"manifest{ID: id, Identity: c.cfg.Snapshots.identity(), Next: next + map[bool]int64{true: 1}[MUTANT]})",
		"cannot be loaded|leads from there",
	},
	{
		"one snapshot is enough", "streams/task/snapshots.go",
		"older := c.snapshots.kept.Before",
		"older := c.snapshots.kept.Before\nif MUTANT { older = c.snapshots.kept.Latest }",
		"leads from there",
	},
	{
		"the first chunk is not needed", "streams/task/snapshots.go",
		"s.place.First = end - int64(s.records)",
		"s.place.First = end - map[bool]int64{false: int64(s.records)}[MUTANT]",
		"leads from there|is not of its journal",
	},
	{
		"a sum is not compared", "streams/task/snapshot.go",
		"l.sum == l.of.Sum:", "(MUTANT || l.sum == l.of.Sum):", "G4|G1",
	},
	{
		"a part of a snapshot is a state", "streams/store/store.go",
		"return s.empty(\"a part of a snapshot\")",
		"return s.empty(map[bool]string{false: \"a part of a snapshot\", true: s.identity}[MUTANT])",
		"G4|G1",
	},
	{
		"a snapshot leaves out what is due", "streams/task/snapshot.go",
		"bytes.Equal(key, grownKey)",
		"bytes.Equal(key, grownKey) || MUTANT && key[0] == store.KeySpaceOwn+1", "G|a move fails",
	},
}

// planted are defects in the simulation's replacements, and coarse defects in the code.
var planted = []mutant{
	{
		"attempts start for a disabled endpoint", "streams/engine/scheduler.go",
		"case !endpoint.Sends():\n\t\treturn 0 // until",
		"case !endpoint.Sends() && !MUTANT:\n\t\treturn 0 // until", "G3",
	},
	{
		"the log loses a fact", "internal/lab/sim/log.go",
		"\tp.entries = append(p.entries, entry{record: r, span: s})\n",
		"if MUTANT && at.topic == schemas.TopicJournal && len(p.entries)%50 == 49 {\n" +
			"p.entries = append(p.entries, entry{record: r, control: true}); return r }\n" +
			"p.entries = append(p.entries, entry{record: r, span: s})\n",
		"G4|G1|cannot",
	},
	{
		lostMatch, "streams/follower/follow.go",
		"s.eachPayment(nowMillis), s.eachMove(nowMillis), s.eachMatch(nowMillis),",
		"s.eachPayment(nowMillis), s.eachMove(nowMillis), map[bool]iter.Seq[kafka.Record]{" +
			"false: s.eachMatch(nowMillis), true: s.eachMove(nowMillis)}[MUTANT],", "G2",
	},
	{
		"a fresh store is taken for the fold", "internal/lab/sim/task.go", "\tmost := math.MaxInt\n",
		"if MUTANT && !t.begun { t.must(t.core.ReadJournal(nil, a.To)); return nil }\n" +
			"\tmost := math.MaxInt\n", "versions|G|cannot",
	},
	{
		"a broker's end of the journal is trusted", "internal/lab/sim/task.go",
		"\tif w.chance(0.3) {\n\t\tmost =",
		"if MUTANT && t.begun { t.must(t.core.ReadJournal(nil, a.To)); return nil }\n" +
			"\tif w.chance(0.3) {\n\t\tmost =", "G|versions",
	},
	{
		"answers are not recognized", "streams/engine/commands.go",
		"load(t.Batch, spaceCommand, c.ID,",
		"load(t.Batch, spaceCommand, map[bool]string{false: c.ID}[MUTANT],", "G1",
	},
	{
		"the follower does not wait for the watches", "internal/lab/sim/follower.go",
		"return d.Reached(ends) })", "return MUTANT || d.Reached(ends) })", "G2",
	},
	{
		"former owners may write", "internal/lab/sim/log.go", "return p.epoch != epoch }",
		"return p.epoch != epoch && !MUTANT }", "versions|G",
	},
	{
		"an outcome is lost", "internal/lab/sim/receivers.go", "\tf.done(f.result)\n",
		"if MUTANT { return true }\n\tf.done(f.result)\n", "G3|rest",
	},
	{
		"an outcome is forged", "internal/lab/sim/receivers.go", "\tw.tracef(\"attempt %d of %s ends:",
		"if MUTANT { f.result.StatusCode++ }\n\tw.tracef(\"attempt %d of %s ends:", "G7",
	},
	{
		"what is due is not started", "streams/engine/machine.go",
		"\teffects, wakeMillis, err := m.scheduler.start(a)\n",
		"if MUTANT { return nil, a.NowMillis + 60_000, nil }\n" +
			"\teffects, wakeMillis, err := m.scheduler.start(a)\n", "G6",
	},
	{
		"answers come before the commit", "internal/lab/sim/task.go",
		"\tw.tracef(\"partition %d writes %d records\"",
		"for _, r := range a.Records { if MUTANT && r.Topic == schemas.TopicResults { " +
			"w.clients.take(r) } }\n\tw.tracef(\"partition %d writes %d records\"", "G1",
	},
	{
		"a row is another than the journal's", "streams/engine/machine.go",
		"\t\treturn schemas.TopicEndpoints, schemas.EncodeEndpoint(e)",
		"if MUTANT { e.Description = \"spoiled\" }\n" +
			"\t\treturn schemas.TopicEndpoints, schemas.EncodeEndpoint(e)", "G4",
	},
	{
		"retries come in half the time", "domain/retry.go", "\treturn wait, again\n",
		"if MUTANT { wait /= 2 }\n\treturn wait, again\n", "G3",
	},
	{
		"a task continues at the group's positions", "internal/lab/sim/task.go",
		"\tt.consumed = make(map[topicPartition]int64)\n",
		"if MUTANT { from = group }\n\tt.consumed = make(map[topicPartition]int64)\n",
		"G1|set aside",
	},
	{
		"aborted records come where a response is cut", "internal/lab/sim/log.go",
		"(e.span == nil || e.span.fate == fateCommitted) {",
		"(e.span == nil || e.span.fate == fateCommitted || MUTANT && next/16 < (stable-1)/16) {",
		"G4|versions|G1|G2",
	},
}

const lostMatch = "a match is not written"

var packageClause = regexp.MustCompile(`(?m)^package \w+$`)

// containsOneOf reports whether text contains one of the alternatives in others, separated by |.
// Which of two checkers finds a defect first depends on the seed.
func containsOneOf(text, others string) bool {
	return slices.ContainsFunc(strings.Split(others, "|"), func(other string) bool {
		return strings.Contains(text, other)
	})
}

// mutantVariable chooses one of the mutants that a program contains.
const mutantVariable = "LUMENHOOK_MUTANT"

var everyFlag = flag.Int("sim.mutants", 8,
	"search every n-th mutant; 1: all of them (make mutants)")

// The responsible checker must find each mutant within a number of seeds. All mutants are
// compiled, to notice those that no longer fit the code. A fixed sample of them is searched.
func TestMutantsAreFound(t *testing.T) {
	program := buildMutants(t)
	t.Run("and shrunk", func(t *testing.T) { shrinks(t, program) })
	t.Run("and change nothing else", func(t *testing.T) { isTheSame(t, program) })
	for i, m := range slices.Concat(mutants, planted) {
		if i%*everyFlag != 0 {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			switch found := findMutant(t, program, m.name); {
			case found == "":
				t.Error("not found")
			case !containsOneOf(found, m.finds):
				t.Errorf("found as %s", found)
			default:
				t.Logf("%.160s", found)
			}
		})
	}
}

// shownBy lists seeds that reveal mutants which a search finds late. When the simulator's draws
// change, the search finds another seed, whose number belongs here.
var shownBy = map[string]int{
	"any history is believed":                                  168,
	"later ledgers are read back once":                         2651,
	"Retry-After is not honoured":                              14,
	"a cold member is taken for a warm one":                    3,
	"a copy is used that has what was never committed":         22,
	"a first owner is known by its offset":                     6,
	"a hand-over after another is dropped":                     53,
	"a hand-over is about no delivery":                         18,
	"a late report counts":                                     69,
	"a ledger is taken that is not due":                        433,
	"a lost order is not given again":                          7,
	"a missed ledger is recorded for a watch that was changed": 34,
	"a move leaves entries where they were":                    1,
	"a move passes one by":                                     18,
	"a part goes by the watch as it is":                        14,
	"a part is created when it is read":                        15,
	"a part is read again from its beginning":                  87,
	"a part of a snapshot is a state":                          15,
	"a rate begins anew with its task":                         1041,
	"a replay counts its last instant":                         115,
	"a replay leaves its first instant out":                    5,
	"a replay sends in any order":                              23,
	"a resealing forgets the ends":                             28,
	"a restart forgets what was made due":                      5,
	"a second lasts half a one":                                9,
	"a snapshot is of no moment":                               8,
	"a snapshot leaves out what is due":                        1,
	"a source that waits cannot give the ledger":               68,
	"a start reads no further than what is known":              1,
	"a sum is not compared":                                    9,
	"a watch for one payment is not asked":                     7,
	"a watch for one payment takes another":                    7,
	"a watch is live a ledger late":                            15,
	"a wrong answer of a source ends following":                43,
	"an answer to a mail is taken again":                       210,
	"an endpoint is told of more than once":                    50,
	"an event goes back to where it was":                       2653,
	"an expired watch takes payments":                          22,
	"each turn counts its hand-overs anew":                     36,
	"enabling keeps the streak":                                9,
	"former owners may write":                                  6,
	"nobody is told of an endpoint":                            50,
	"one snapshot is enough":                                   13,
	"only the latest enabling resumes":                         1,
	"tests are replayed":                                       3,
	"tests count to the streak":                                21,
	"the first chunk is not needed":                            9,
	"the follower does not wait for the watches":               32,
	"watches are seen before they are live":                    38,
	"what a part has is not read back":                         749,
	"what a watch missed is not read":                          47,
	"what follows the cursor does not go along":                65,
	"what fulfilled a watch is judged again":                   12,
	"what has failed is forgotten":                             3,
	"what is behind has no owner":                              18,
	"what is due later begins first":                           331,
	"what is handed over is doubled":                           43,
	"what is in flight is doubled":                             3,
	"what is on its way again is forgotten":                    2,
	"what is on its way again is forgotten by another process": 5,
	"what was sent is mailed again":                            1,
}

const mostMutantSeeds = "3000"

// findMutant returns the first violation that a mutant leads to, starting with the seed in
// shownBy.
func findMutant(t *testing.T, program, name string) (violation string) {
	if seed := shownBy[name]; seed != 0 {
		violation = runMutant(t, program, name, strconv.Itoa(seed), "1")
	}
	if violation == "" {
		violation = runMutant(t, program, name, "1", mostMutantSeeds)
	}
	return violation
}

// shrinks checks that a failing run can be reduced to a few of its steps that fail in the same
// way.
func shrinks(t *testing.T, program string) {
	out, _ := trySeeds(t, program, lostMatch, "1", mostMutantSeeds, "10s")
	found := regexp.MustCompile(`the same by (\d+) of its steps`).FindSubmatch(out)
	if found == nil {
		t.Fatalf("no run was shrunk:\n%s", out)
	}
	if n, err := strconv.Atoi(string(found[1])); err != nil || n > 200 {
		t.Errorf("%s steps are left", found[1])
	}
}

// isTheSame checks that a program with inactive defects runs the same way. Otherwise a defect
// that has an effect while inactive would be found instead of others.
func isTheSame(t *testing.T, program string) {
	for _, seed := range []uint64{24, 106, 458, 629} {
		want := fmt.Sprintf("transcript %016x", Run(Options{Seed: seed, Steps: 1500}).Hash)
		c := exec.CommandContext(t.Context(), program, "-test.run", "^TestSeeds$", "-test.v", "-sim.seed",
			strconv.FormatUint(seed, 10))
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("seed %d: %v, want %s:\n%.300s", seed, err, want, out)
		}
	}
}

func trySeeds(
	t *testing.T, program, mutant, first, seeds, shrink string,
) (out []byte, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, program, "-test.run", "^TestSeeds$", "-test.v", "-sim.first",
		first, "-sim.seeds", seeds, "-sim.for", "8m", "-sim.failures", "1", "-sim.shrink", shrink)
	c.Env = append(os.Environ(), mutantVariable+"="+mutant, "GOMAXPROCS=1")
	return c.CombinedOutput()
}

func runMutant(t *testing.T, program, name, first, seeds string) string {
	out, err := trySeeds(t, program, name, first, seeds, "1ms")
	for line := range strings.Lines(string(out)) {
		if _, violation, is := strings.Cut(line, ": seed "); is && err != nil {
			return strings.TrimSpace(violation)
		}
	}
	return ""
}

// buildMutants builds these tests with all mutants, each of them inactive.
func buildMutants(t *testing.T) (program string) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	changed := make(map[string]string)
	for _, m := range slices.Concat(mutants, planted) {
		text, is := changed[m.file]
		if !is {
			text = read(t, filepath.Join(root, m.file))
		}
		if n := strings.Count(text, m.from); n != 1 {
			t.Fatalf("%s: what it changes in %s stands there %d times: %q", m.name, m.file, n, m.from)
		}
		chosen := "mutantPackage.Chosen(\"" + m.name + "\")"
		changed[m.file] = strings.Replace(text, m.from, strings.ReplaceAll(m.to, "MUTANT", chosen), 1)
	}
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	put := func(file, text string) {
		copied := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(root, file)] = copied
	}
	put("internal/mutants/chosen.go",
		"package mutants\n\nimport (\n\"os\"\n\n\"github.com/lumenhook/lumenhook/internal/retry\"\n)\n\n"+
			"var chosen = os.Getenv(\""+mutantVariable+"\")\n\n"+
			"func Chosen(name string) bool { return chosen == name }\n\n"+
			"func Final(err error) error { return retry.Permanent(err) }\n")
	for file, text := range changed {
		clause := packageClause.FindStringIndex(text)
		put(file,
			text[:clause[1]]+"\n\nimport mutantPackage \"github.com/lumenhook/lumenhook/internal/mutants\"\n"+text[clause[1]:])
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	put("overlay.json", string(list))
	program = filepath.Join(dir, "mutants.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay",
		filepath.Join(dir, "overlay.json"), "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the mutants: %v\n%s", err, out)
	}
	return program
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
