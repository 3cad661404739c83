package sha256x2

import "crypto/sha256"

// Sums hashes n messages. message gives the one at an index in two parts, of which the head is
// shorter than a block of 64 bytes and may change once message returns; the body may not change
// before sum takes the hash. Indices are asked for in order, hashes come in any order. It is
// quickest when the longest come first.
func Sums(n int, message func(i int) (head, body []byte), sum func(i int, hash [sha256.Size]byte)) {
	if !available {
		oneByOne(n, message, sum)
		return
	}
	inTurns(n, message, sum)
}

func oneByOne(
	n int, message func(i int) (head, body []byte), sum func(i int, hash [sha256.Size]byte),
) {
	digest := sha256.New()
	var hash [sha256.Size]byte
	for i := range n {
		digest.Reset()
		head, body := message(i)
		digest.Write(head)
		digest.Write(body)
		digest.Sum(hash[:0])
		sum(i, hash)
	}
}

func inTurns(
	n int, message func(i int) (head, body []byte), sum func(i int, hash [sha256.Size]byte),
) {
	var lanes [2]lane
	next := 0
	for {
		for i := range lanes {
			l := &lanes[i]
			if l.busy && !l.advance() {
				sum(l.index, l.hash())
				l.busy = false
			}
			if !l.busy && next < n {
				l.begin(message(next))
				l.index, l.busy = next, true
				next++
			}
		}
		a, b := &lanes[0], &lanes[1]
		switch {
		case a.busy && b.busy:
			blocks := min(len(a.run), len(b.run)) / blockSizeBytes
			pair(&a.state, &b.state, &a.run[0], &b.run[0], blocks)
			a.step(blocks)
			b.step(blocks)
		case a.busy:
			a.alone()
		case b.busy:
			b.alone()
		default:
			return
		}
	}
}
