package sim

import (
	"strings"
	"time"
)

// Shrink searches for fewer steps of a failing run that violate the same guarantee, until
// it finds none or its time is over. It returns the run's options, and its report with the
// transcript.
func Shrink(o Options, failed Report, within time.Duration) (Options, Report) {
	deadline := time.Now().Add(within)
	left := make(map[int]bool)
	run := func() Report {
		o.Left = func(i int) bool { return left[i] }
		return Run(o)
	}
	o.Steps = min(o.Steps, lastStep(failed, o)+1)
	for size := max(1, o.Steps/2); size > 0 && time.Now().Before(deadline); size /= 2 {
		for from := 0; from < o.Steps && time.Now().Before(deadline); from += size {
			dropped := leaveOut(left, from, min(from+size, o.Steps))
			if len(dropped) == 0 || kindOf(run().Violation) == kindOf(failed.Violation) {
				continue
			}
			for _, i := range dropped {
				delete(left, i)
			}
		}
	}
	o.Lines = true
	return o, run()
}

func leaveOut(left map[int]bool, from, to int) (dropped []int) {
	for i := from; i < to; i++ {
		if !left[i] {
			left[i] = true
			dropped = append(dropped, i)
		}
	}
	return dropped
}

// lastStep is the step of a run's violation; the last of all when it came while
// the run was coming to rest.
func lastStep(r Report, o Options) int { return min(r.Step, o.Steps-1) }

// kindOf is a violation without the names in it: two runs with the same kind are considered
// to fail alike.
func kindOf(violation string) string {
	var kind strings.Builder
	for word := range strings.FieldsSeq(violation) {
		if !strings.ContainsAny(word, "_0123456789") || len(word) == 3 && word[0] == 'G' {
			kind.WriteString(word + " ")
		}
		if kind.Len() > 60 {
			break
		}
	}
	return kind.String()
}
