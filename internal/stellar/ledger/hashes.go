package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// resultsKept is memory for the results of one ledger after the other: *[]byte.
var resultsKept sync.Pool

// hash computes the hashes of the envelopes. If the ledger is to be proved, it also computes the
// hashes of the transaction set and of the results, which the ledger's header names.
func (l *located) hash(envelopes []envelope, passphrase string, proves bool) {
	if proves {
		kept, _ := resultsKept.Get().(*[]byte)
		if kept == nil {
			kept = new([]byte)
		}
		defer resultsKept.Put(kept)
		*kept = l.appendResults((*kept)[:0], l.endsKnown())
		l.resultsHash = sha256.Sum256(*kept)
		l.setHash = sum(l.setParts())
	}
	signed := newHasher(passphrase)
	for i := range envelopes {
		envelopes[i].hash = sum(signed.parts(&envelopes[i]))
	}
}

// sum returns the hash of a head and a body, one after the other.
func sum(head, body []byte) (hash [sha256.Size]byte) {
	digest := sha256.New()
	digest.Write(head)
	digest.Write(body)
	digest.Sum(hash[:0])
	return hash
}

// setParts returns the input of the transaction set's hash. In the older form it excludes the
// number of its envelopes, which each scanned one has.
func (l *located) setParts() (head, body []byte) {
	if l.generalized {
		return nil, l.set
	}
	return l.set[:hashSizeBytes], l.set[hashSizeBytes+4:]
}

// endsKnown counts the first results, up to one whose end is not known.
func (l *located) endsKnown() int {
	for i := range l.transactions {
		if l.transactions[i].pair == nil {
			return i
		}
	}
	return len(l.transactions)
}

// appendResults appends count of the first results in their hashed form: after the total number, in
// the order of application.
func (l *located) appendResults(to []byte, count int) []byte {
	to = binary.BigEndian.AppendUint32(to, uint32(len(l.transactions)))
	for i := range count {
		to = append(to, l.transactions[i].pair...)
	}
	return to
}

// hasher hashes transactions of one network, as the SDK's network.TransactionViewHasher does
// once their parts are found.
type hasher struct {
	// the network, a kind, and the kind of account that the oldest form leaves out
	head [hashSizeBytes + 4 + 4]byte
}

func newHasher(passphrase string) *hasher {
	h := new(hasher)
	id := network.ID(passphrase)
	copy(h.head[:], id[:])
	return h
}

// parts returns the input of a transaction's hash. For the oldest form, the equivalent newer form
// is signed.
func (h *hasher) parts(e *envelope) (head, body []byte) {
	head = h.head[:]
	copy(head[hashSizeBytes:], e.view[:4])
	if xdr.EnvelopeType(binary.BigEndian.Uint32(e.view)) == xdr.EnvelopeTypeEnvelopeTypeTxV0 {
		binary.BigEndian.PutUint32(head[hashSizeBytes:], uint32(xdr.EnvelopeTypeEnvelopeTypeTx))
	} else {
		head = head[:hashSizeBytes+4]
	}
	return head, e.signed
}
