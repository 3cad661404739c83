package sha256x2

import (
	"crypto/sha256"
	"encoding/binary"
)

const blockSizeBytes = sha256.BlockSize

// state is that of SHA-256 (FIPS 180-4, section 6.2) in the order of the SHA unit's registers:
// f, e, b, a, h, g, d, c.
type state [8]uint32

var initial = state{
	0x9b05688c, 0x510e527f, 0xbb67ae85, 0x6a09e667, 0x5be0cd19, 0x1f83d9ab, 0xa54ff53a, 0x3c6ef372,
}

// lane is a message under way. It is hashed in up to three runs of whole blocks: the one with the
// head and how the body begins, those inside of the body, and how it ends, with the padding.
type lane struct {
	state state
	index int  // the message's
	busy  bool // there is one
	run   []byte
	later [2][]byte // the runs after it, some of them empty
	due   int       // which of those comes next
	first [blockSizeBytes]byte
	last  [2 * blockSizeBytes]byte
}

// begin takes a message. There is always a run: the last.
func (l *lane) begin(head, body []byte) {
	l.state = initial
	sizeBytes := len(head) + len(body)
	l.run = nil
	if len(head) > 0 && sizeBytes >= blockSizeBytes {
		copy(l.first[:], head)
		body = body[copy(l.first[len(head):], body):]
		head, l.run = nil, l.first[:]
	}
	whole := 0
	if len(head) == 0 {
		whole = len(body) / blockSizeBytes * blockSizeBytes
	}
	end := copy(l.last[:], head)
	end += copy(l.last[end:], body[whole:])
	l.later, l.due = [2][]byte{body[:whole], l.pad(end, sizeBytes)}, 0
	l.advance()
}

// pad ends the last blocks, of which so much is filled, as FIPS 180-4, section 5.1.1, says.
func (l *lane) pad(end, sizeBytes int) []byte {
	const lengthSizeBytes = 8
	l.last[end] = 0x80
	clear(l.last[end+1:])
	blocks := l.last[:blockSizeBytes]
	if end+1+lengthSizeBytes > blockSizeBytes {
		blocks = l.last[:]
	}
	binary.BigEndian.PutUint64(blocks[len(blocks)-lengthSizeBytes:], uint64(sizeBytes)*8)
	return blocks
}

// advance goes on to the next run if one has ended, and reports whether there is one.
func (l *lane) advance() bool {
	for len(l.run) == 0 && l.due < len(l.later) {
		l.run = l.later[l.due]
		l.due++
	}
	return len(l.run) > 0
}

// step leaves blocks of the run behind.
func (l *lane) step(blocks int) { l.run = l.run[blocks*blockSizeBytes:] }

// alone hashes the rest of the run while there is no other message.
func (l *lane) alone() {
	var idle state
	blocks := len(l.run) / blockSizeBytes
	pair(&l.state, &idle, &l.run[0], &l.run[0], blocks)
	l.step(blocks)
}

// hash is what the state says at the end.
func (l *lane) hash() (sum [sha256.Size]byte) {
	for i, at := range [...]int{3, 2, 7, 6, 1, 0, 5, 4} {
		binary.BigEndian.PutUint32(sum[4*i:], l.state[at])
	}
	return sum
}
