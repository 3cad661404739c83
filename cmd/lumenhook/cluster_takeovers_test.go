//go:build kafka

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

type takeOver struct {
	partition int
	after     time.Duration // since the blow
	fence     time.Duration // until the former owner was fenced
	restore   time.Duration // until its state was complete
}

func (s *site) takeOvers(b *blow) (list []takeOver) {
	s.t.Helper()
	for _, r := range s.order {
		for line := range strings.Lines(s.said(r)) {
			var said struct {
				Time                             time.Time
				Msg                              string
				Partition                        int
				SecondsToFence, SecondsToRestore float64
			}
			if json.Unmarshal([]byte(line), &said) != nil || said.Time.Before(b.from) ||
				!b.to.IsZero() && said.Time.After(b.to) || said.Msg != "a partition was taken over" {
				continue
			}
			list = append(list, takeOver{
				partition: said.Partition,
				after:     said.Time.Sub(b.from),
				fence:     seconds(said.SecondsToFence),
				restore:   seconds(said.SecondsToRestore),
			})
		}
	}
	slices.SortFunc(list, func(a, b takeOver) int { return int(a.after - b.after) })
	return list
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// waves splits takeovers wherever none followed for some seconds: first those of the failed
// engine's partitions, then those of the group's rebalance.
func waves(list []takeOver) (split [][]takeOver) {
	const pause = 3 * time.Second
	for i, one := range list {
		if i == 0 || one.after-list[i-1].after > pause {
			split = append(split, nil)
		}
		last := len(split) - 1
		split[last] = append(split[last], one)
	}
	return split
}

// sayTakeOvers describes how many partitions were taken over by when, one wave after another.
func sayTakeOvers(list []takeOver) string {
	text := "no partition was taken over"
	n := 0
	for i, wave := range waves(list) {
		if i == 0 {
			text = "partitions taken over:"
		}
		n += len(wave)
		text += fmt.Sprintf(" %d by %.1f s", n, wave[len(wave)-1].after.Seconds())
	}
	return text
}

// failOverOf describes the failover after a blow to an engine: how long each step took, and what
// became of the payments made until it was over.
func (s *site) failOverOf(b *blow, paid []payment) string {
	s.t.Helper()
	var after, fence, restore []time.Duration
	if all := waves(s.takeOvers(b)); len(all) > 0 {
		for _, one := range all[0] {
			after, fence = append(after, one.after), append(fence, one.fence)
			restore = append(restore, one.restore)
		}
	}
	var waits []time.Duration
	first := make(map[int]time.Duration)
	made, told, attempts := 0, 0, 0
	for _, one := range paid {
		if one.paid.Before(b.from) || one.paid.After(b.to) {
			continue
		}
		made++
		at, came := s.receipts.first(one.id)
		if !came {
			continue
		}
		told++
		attempts += s.receipts.posts(one.id)
		waits = append(waits, at.Sub(one.paid))
		if had, found := first[one.wallet]; !found || at.Sub(b.from) < had {
			first[one.wallet] = at.Sub(b.from)
		}
	}
	var firsts []time.Duration
	for _, one := range first {
		firsts = append(firsts, one)
	}
	return fmt.Sprintf("%s, %d standbys: %d partitions taken over after %s, of which fencing %s and "+
		"restoring %s; first attempts of new payments to each of %d wallets after %s; "+
		"%d payments were made until it was over, %d are accounted for, with %d posts; "+
		"from a payment to its first attempt %s",
		b.name, *clusterStandbys, len(after), spread(after), spread(fence), spread(restore),
		len(firsts), spread(firsts), made, told, attempts, spread(waits))
}

// spread formats the minimum, the median, and the maximum of some times.
func spread(times []time.Duration) string {
	if len(times) == 0 {
		return "(none)"
	}
	slices.Sort(times)
	return fmt.Sprintf("%.1f/%.1f/%.1f s", times[0].Seconds(), times[len(times)/2].Seconds(),
		times[len(times)-1].Seconds())
}
