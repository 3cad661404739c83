package ledger

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/stellar/go-stellar-sdk/xdr"
)

type rewritable struct {
	encodedEvent
	group        string // events of a group were most likely rewritten in the same way
	forms        []form
	administered bool // its own forms are followed by those that name an administrator
}

type encodedEvent struct {
	contract []byte // nil if none
	head     []byte // the bytes before the number of topics
	topics   [][]byte
	body     []byte // the number of topics, the topics and the data
	data     []byte
}

// form is a possible earlier form of an event with three topics. It had one more topic, at index
// at, and maybe another name. If at is 0, the event is unchanged.
type form struct {
	name, more []byte
	at         int
}

func (s *scanner) encodedEvent() (e encodedEvent) {
	from := s.at
	s.must(0)
	if s.option() {
		e.contract = s.take(hashSizeBytes)
	}
	s.take(4) // type
	s.must(0)
	e.head = s.raw[from:s.at:s.at]
	from = s.at
	for n := s.count(listed); n > 0 && !s.bad; n-- {
		e.topics = append(e.topics, over[xdr.ScValView](s))
	}
	e.data = over[xdr.ScValView](s)
	e.body = s.raw[from:s.at:s.at]
	return e
}

type formerSearch struct {
	*prover
	claimed        xdr.Hash
	head           []byte // return value, and number of events
	all            []rewritable
	administrators []form
	chosen         map[string]int
	tries          int
}

func (s *formerSearch) run() bool {
	s.tries, s.chosen = unverifiedMax, map[string]int{}
	return s.from(0, s.head)
}

// from tries the forms of the events from index i on. Events without a group are independent.
func (s *formerSearch) from(i int, image []byte) bool {
	if i == len(s.all) {
		s.tries--
		return s.spend(len(image)) && sha256.Sum256(image) == s.claimed
	}
	e := &s.all[i]
	forms := len(e.forms)
	if e.administered {
		forms += len(s.administrators)
	}
	if form, ok := s.chosen[e.group]; ok && form < forms {
		return s.from(i+1, s.appendForm(image, e, form))
	}
	for form := 0; form < forms && s.tries > 0 && s.leftBytes > 0; form++ {
		if e.group != "" {
			s.chosen[e.group] = form
		}
		if s.from(i+1, s.appendForm(image, e, form)) {
			return true
		}
	}
	delete(s.chosen, e.group)
	return false
}

// appendForm appends a possible earlier form of an event to image, over any form tried before.
func (s *formerSearch) appendForm(image []byte, e *rewritable, i int) []byte {
	var f form
	if i < len(e.forms) {
		f = e.forms[i]
	} else {
		f = s.administrators[i-len(e.forms)]
	}
	image = append(image, e.head...)
	if f.at == 0 {
		return append(image, e.body...)
	}
	if f.name == nil {
		f.name = e.topics[0]
	}
	image = binary.BigEndian.AppendUint32(image, uint32(len(e.topics)+1))
	image = append(image, f.name...)
	for _, topic := range e.topics[1:f.at] {
		image = append(image, topic...)
	}
	image = append(image, f.more...)
	for _, topic := range e.topics[f.at:] {
		image = append(image, topic...)
	}
	return append(image, e.data...)
}
