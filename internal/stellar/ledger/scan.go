package ledger

import (
	"encoding/binary"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// Limits of the protocol.
const (
	memoTextSizeBytesMax = 28
	pathMax              = 5
)

// listed is the minimum size of a list's element.
const listed = 4

// scanner steps through XDR. After an unexpected form or the end, bad stays set.
type scanner struct {
	raw []byte
	at  int
	bad bool
}

// take returns the next bytes, or nil at the end.
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

// must reads a number and checks that it is want.
func (s *scanner) must(want uint32) {
	if s.uint32() != want {
		s.bad = true
	}
}

// option reports whether an optional value is present.
func (s *scanner) option() bool {
	there := s.uint32()
	if there > 1 {
		s.bad = true
	}
	return there == 1 && !s.bad
}

// count reads a number of elements. It returns 0 if there are not enough bytes for them.
func (s *scanner) count(sizeBytesMin int) int {
	n := int64(s.uint32())
	if s.bad || n > int64(len(s.raw)-s.at)/int64(sizeBytesMin) {
		s.bad = true
		return 0
	}
	return int(n)
}

// limited reads a number. It returns 0 if the number exceeds limit.
func (s *scanner) limited(limit uint32) int {
	n := s.uint32()
	if n > limit {
		s.bad = true
		return 0
	}
	return int(n)
}

func (s *scanner) rest() []byte { return s.raw[s.at:] }

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

type known interface {
	~[]byte
	Raw() ([]byte, error)
}

// over skips a value with the SDK and returns its bytes.
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

// empty skips an empty list or the first form of a union if it is empty. It reports whether it did.
func (s *scanner) empty() bool {
	if s.bad || len(s.raw)-s.at < 4 || binary.BigEndian.Uint32(s.raw[s.at:]) != 0 {
		return false
	}
	s.at += 4
	return true
}

func (s *scanner) bump() {
	s.muxedAccount()
	s.take(8)
	s.must(uint32(xdr.EnvelopeTypeEnvelopeTypeTx))
}

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

// party is an account; id is only set if it is muxed.
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

type memo struct {
	kind xdr.MemoType
	text []byte // or hash
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

// operation holds the parts of an operation that payments need. Other operations only have a kind.
type operation struct {
	kind     xdr.OperationType
	source   party // without a key if it is the transaction's source
	to       party
	asset    []byte // nil for the native asset
	amount   int64
	byResult bool // the amount is in the result
}

func (s *scanner) stepOverBody() {
	if !s.bad {
		s.at -= 4
		over[xdr.OperationBodyView](s)
	}
}

func (s *scanner) operationHead() (o operation) {
	if s.option() {
		o.source = s.muxedAccount()
	}
	o.kind = xdr.OperationType(s.uint32())
	return o
}

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
