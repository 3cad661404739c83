package ledger

import (
	"encoding/binary"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// Bounds that the protocol sets.
const (
	memoTextSizeBytesMax = 28
	pathMax              = 5
)

// listed is the smallest size of an element of a list.
const listed = 4

// scanner steps through XDR. When it meets an unexpected form, or the end, it becomes bad and stays
// so. Its results are then invalid.
type scanner struct {
	raw []byte
	at  int
	bad bool
}

// take returns the next bytes; nil at the end.
func (s *scanner) take(sizeBytes int) []byte {
	if s.bad || len(s.raw)-s.at < sizeBytes {
		s.bad = true
		return nil
	}
	s.at += sizeBytes
	return s.raw[s.at-sizeBytes : s.at : s.at]
}

func (s *scanner) uint32() uint32 {
	if b := s.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (s *scanner) uint64() uint64 {
	if b := s.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// must reads a number, which must be this one.
func (s *scanner) must(want uint32) {
	if s.uint32() != want {
		s.bad = true
	}
}

// option reads whether an optional value is present.
func (s *scanner) option() bool {
	there := s.uint32()
	if there > 1 {
		s.bad = true
	}
	return there == 1 && !s.bad
}

// count reads a number of elements; 0 if there cannot be that many.
func (s *scanner) count(sizeBytesMin int) int {
	n := int64(s.uint32())
	if s.bad || n > int64(len(s.raw)-s.at)/int64(sizeBytesMin) {
		s.bad = true
		return 0
	}
	return int(n)
}

// limited reads a number; 0 if it is over the limit.
func (s *scanner) limited(limit uint32) int {
	n := s.uint32()
	if n > limit {
		s.bad = true
		return 0
	}
	return int(n)
}

// rest returns the bytes that were not read yet.
func (s *scanner) rest() []byte { return s.raw[s.at:] }

// opaque reads bytes of variable length, and their padding.
func (s *scanner) opaque(sizeBytesMax uint32) []byte {
	n := s.uint32()
	if n > sizeBytesMax {
		s.bad = true
	}
	padded := s.take(int(n+3) &^ 3)
	if s.bad {
		return nil
	}
	for _, p := range padded[n:] {
		if p != 0 {
			s.bad = true
		}
	}
	return padded[:n:n]
}

// known is a type that the SDK can skip.
type known interface {
	~[]byte
	Raw() ([]byte, error)
}

// over steps over a value that the SDK can delimit, and returns it.
func over[V known](s *scanner) []byte {
	if s.bad {
		return nil
	}
	raw, err := V(s.raw[s.at:]).Raw()
	if err != nil {
		s.bad = true
		return nil
	}
	return s.take(len(raw))
}

// empty steps over an empty list, or over an empty first form of several.
func (s *scanner) empty() bool {
	if s.bad || len(s.raw)-s.at < 4 || binary.BigEndian.Uint32(s.raw[s.at:]) != 0 {
		return false
	}
	s.at += 4
	return true
}

// bump reads the part before the transaction inside a fee bump.
func (s *scanner) bump() {
	s.muxedAccount()
	s.take(8)
	s.must(uint32(xdr.EnvelopeTypeEnvelopeTypeTx))
}

// transactionHead reads the part before the operations.
func (s *scanner) transactionHead(kind xdr.EnvelopeType) (source party, m memo) {
	if kind == xdr.EnvelopeTypeEnvelopeTypeTxV0 {
		source.key = s.take(hashSizeBytes)
		s.take(4 + 8)
		if s.option() {
			s.take(8 + 8)
		}
		return source, s.memo()
	}
	source = s.muxedAccount()
	s.take(4 + 8) // fee, sequence
	switch {
	case s.empty(): // no preconditions
	default:
		over[xdr.PreconditionsView](s)
	}
	return source, s.memo()
}

// party is an account; id is set if it is muxed.
type party struct {
	key   []byte
	muxed bool
	id    uint64
}

func (s *scanner) muxedAccount() (p party) {
	switch xdr.CryptoKeyType(s.uint32()) {
	case xdr.CryptoKeyTypeKeyTypeEd25519:
	case xdr.CryptoKeyTypeKeyTypeMuxedEd25519:
		p.muxed, p.id = true, s.uint64()
	default:
		s.bad = true
	}
	p.key = s.take(hashSizeBytes)
	return p
}

func (s *scanner) account() party {
	s.must(uint32(xdr.PublicKeyTypePublicKeyTypeEd25519))
	return party{key: s.take(hashSizeBytes)}
}

// memo is a transaction's memo.
type memo struct {
	kind xdr.MemoType
	text []byte // or the hash
	id   uint64
}

func (s *scanner) memo() (m memo) {
	switch m.kind = xdr.MemoType(s.uint32()); m.kind {
	case xdr.MemoTypeMemoNone:
	case xdr.MemoTypeMemoText:
		m.text = s.opaque(memoTextSizeBytesMax)
	case xdr.MemoTypeMemoId:
		m.id = s.uint64()
	case xdr.MemoTypeMemoHash, xdr.MemoTypeMemoReturn:
		m.text = s.take(hashSizeBytes)
	default:
		s.bad = true
	}
	return m
}

// asset reads an asset and returns its XDR.
func (s *scanner) asset() []byte {
	from := s.at
	switch xdr.AssetType(s.uint32()) {
	case xdr.AssetTypeAssetTypeNative:
	case xdr.AssetTypeAssetTypeCreditAlphanum4:
		s.take(4)
		s.account()
	case xdr.AssetTypeAssetTypeCreditAlphanum12:
		s.take(12)
		s.account()
	default:
		s.bad = true
	}
	return s.raw[from:s.at:s.at]
}

func (s *scanner) path() {
	n := s.count(listed)
	if n > pathMax {
		s.bad = true
	}
	for ; n > 0 && !s.bad; n-- {
		s.asset()
	}
}

// operation holds the parts of an operation that payments need. Other operations have only a kind.
type operation struct {
	kind     xdr.OperationType
	source   party // without a key: the transaction's
	to       party
	asset    []byte // nil: native
	amount   int64
	byResult bool // the result has the amount
}

// stepOverBody skips an operation that is not a payment, after its kind.
func (s *scanner) stepOverBody() {
	if !s.bad {
		s.at -= 4
		over[xdr.OperationBodyView](s)
	}
}

// operationHead reads an operation's source and kind.
func (s *scanner) operationHead() (o operation) {
	if s.option() {
		o.source = s.muxedAccount()
	}
	o.kind = xdr.OperationType(s.uint32())
	return o
}

// operationBody reads the part after the kind of a payment.
func (s *scanner) operationBody(o *operation) {
	switch o.kind {
	case xdr.OperationTypeCreateAccount:
		o.to = s.account()
		o.amount = int64(s.uint64())
	case xdr.OperationTypePayment:
		o.to = s.muxedAccount()
		o.asset = s.asset()
		o.amount = int64(s.uint64())
	case xdr.OperationTypePathPaymentStrictReceive, xdr.OperationTypePathPaymentStrictSend:
		s.asset()
		s.take(8)
		o.to = s.muxedAccount()
		o.asset = s.asset()
		o.amount = int64(s.uint64())
		o.byResult = o.kind == xdr.OperationTypePathPaymentStrictSend
		s.path()
	case xdr.OperationTypeAccountMerge:
		o.to = s.muxedAccount()
		o.byResult = true
	}
}
