package schemas

import (
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// entryOut is nil where there is no entry, so that facts without one are as they always were.
func entryOut(e domain.LogEntry) *kafka.LogEntry {
	if e.Number == 0 {
		return nil
	}
	return &kafka.LogEntry{
		From:            e.From,
		Number:          e.Number,
		BodySha256:      e.BodySHA256,
		SignatureSha256: e.SignatureSHA256,
		Hashes:          e.Hashes,
	}
}

func entryIn(e *kafka.LogEntry) domain.LogEntry {
	return domain.LogEntry{
		From:            e.GetFrom(),
		Number:          e.GetNumber(),
		BodySHA256:      e.GetBodySha256(),
		SignatureSHA256: e.GetSignatureSha256(),
		Hashes:          e.GetHashes(),
	}
}

func logOut(l domain.AttemptLog) *kafka.AttemptLog {
	if l.From == 0 {
		return nil
	}
	return &kafka.AttemptLog{From: l.From, Size: l.Size, Peaks: l.Peaks}
}

func logIn(l *kafka.AttemptLog) domain.AttemptLog {
	return domain.AttemptLog{From: l.GetFrom(), Size: l.GetSize(), Peaks: l.GetPeaks()}
}
