package devnet

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// FaultKind is a way in which the network's RPC misbehaves on demand.
type FaultKind string

// Kinds of faults. They touch what getHealth and getLedgers answer and nothing else: the
// ledgers on disk and all other methods are as they should be.
const (
	FaultErrors  FaultKind = "errors"  // HTTP 503
	FaultGarbage FaultKind = "garbage" // what is no JSON
	FaultGap     FaultKind = "gap"     // the ledger is left out of pages
	// the network seems to be as it was at half of the ledger's sequence
	FaultBehind FaultKind = "behind"
	FaultReset  FaultKind = "reset"  // the ledger and those after it are of another chain
	FaultFrozen FaultKind = "frozen" // the ledger seems to be the newest
	FaultAhead  FaultKind = "ahead"  // all ledgers up to a thousand after the newest seem forgotten
	FaultForm   FaultKind = "form"   // ledgers have a form that no program knows

	FaultUnauthorized FaultKind = "unauthorized" // HTTP 401
	FaultQuota        FaultKind = "quota"        // HTTP 429
	FaultHang         FaultKind = "hang"         // no answer
)

// FaultKinds lists all of them.
func FaultKinds() []FaultKind {
	return []FaultKind{
		FaultErrors, FaultGarbage, FaultGap, FaultBehind, FaultReset, FaultFrozen, FaultAhead, FaultForm,
		FaultUnauthorized, FaultQuota, FaultHang,
	}
}

// touches reports whether a fault spoils the answers of a method.
func (k FaultKind) touches(method string) bool {
	switch k {
	case FaultGap, FaultReset, FaultForm:
		return method == protocol.GetLedgersMethodName
	case FaultBehind, FaultFrozen, FaultAhead:
		return method == protocol.GetHealthMethodName
	default:
		return method == protocol.GetLedgersMethodName || method == protocol.GetHealthMethodName
	}
}

// hangTime is how long a request hangs before its connection is closed without an answer.
const hangTime = 2 * time.Second

// faultsMax bounds the faults of a network, and answersMax those of one.
const (
	faultsMax  = 100
	answersMax = 1_000_000
)

// Fault spoils a number of answers, once the network has closed a ledger.
type Fault struct {
	Kind    FaultKind
	Ledger  uint32
	Answers int
}

// String is the form that ParseFaults reads.
func (f Fault) String() string { return fmt.Sprintf("%s@%dx%d", f.Kind, f.Ledger, f.Answers) }

// ParseFaults reads faults as people write them: KIND@LEDGER, and xN for N answers instead of
// one, with commas between them: errors@30x10,gap@50x5.
func ParseFaults(text string) (faults []Fault, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		f, err := parseFault(part)
		if err != nil {
			return nil, fmt.Errorf("fault %q: %w", part, err)
		}
		faults = append(faults, f)
	}
	if len(faults) > faultsMax {
		return nil, fmt.Errorf("%d faults are more than the %d that a network takes", len(faults),
			faultsMax)
	}
	return faults, nil
}

func parseFault(text string) (f Fault, err error) {
	kind, rest, ok := strings.Cut(text, "@")
	ledger, answers, repeated := strings.Cut(rest, "x")
	sequence, err := strconv.ParseUint(ledger, 10, 31)
	if !ok || err != nil || sequence == 0 {
		return f, errors.New("must be KIND@LEDGER or KIND@LEDGERxANSWERS, such as errors@30x10")
	}
	f = Fault{Kind: FaultKind(kind), Ledger: uint32(sequence), Answers: 1}
	if repeated {
		if f.Answers, err = strconv.Atoi(answers); err != nil || f.Answers < 1 || f.Answers > answersMax {
			return f, fmt.Errorf("the number of answers must be from 1 to %d", answersMax)
		}
	}
	if slices.Contains(FaultKinds(), f.Kind) {
		return f, nil
	}
	return f, fmt.Errorf("the kind must be one of %q", FaultKinds())
}

// stage plays the faults, one after the other in the order given.
type stage struct {
	mu     sync.Mutex
	faults []Fault
}

// next takes the fault that spoils this answer, if one does.
func (s *stage) next(method string, latest uint32) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) == 0 || latest < s.faults[0].Ledger || !s.faults[0].Kind.touches(method) {
		return Fault{}, false
	}
	f := &s.faults[0]
	taken := *f
	if f.Answers--; f.Answers == 0 {
		s.faults = s.faults[1:]
	}
	return taken, true
}

// spoil answers wrongly, if it is time. Of a batch only the first request counts.
func (n *Network) spoil(
	ctx context.Context, w http.ResponseWriter, requests []rpcRequest,
) (answered bool) {
	health, err := n.getHealth()
	if err != nil || len(requests) == 0 {
		return false
	}
	f, ok := n.stage.next(requests[0].Method, health.LatestLedger)
	if !ok {
		return false
	}
	n.cfg.Logger.Info("an answer is spoiled as ordered", "fault", f.Kind, "method", requests[0].Method)
	switch f.Kind {
	case FaultErrors:
		http.Error(w, "ordered to be out of order", http.StatusServiceUnavailable)
		return true
	case FaultGarbage:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{"ledgers":[{"sequence":"`))
		return true
	case FaultUnauthorized:
		http.Error(w, "ordered to know nobody", http.StatusUnauthorized)
		return true
	case FaultQuota:
		http.Error(w, "ordered to have answered enough", http.StatusTooManyRequests)
		return true
	case FaultHang:
		timer := time.NewTimer(hangTime)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		panic(http.ErrAbortHandler)
	default: // of an answer that is well formed
	}
	answer := n.answer(requests[0])
	if answer != nil && answer.Error == nil {
		n.distort(f, answer)
	}
	writeJSON(w, http.StatusOK, answer)
	return true
}

// distort changes a right answer into what the fault says.
func (n *Network) distort(f Fault, answer *rpcResponse) {
	switch result := answer.Result.(type) {
	case protocol.GetHealthResponse:
		switch f.Kind {
		case FaultAhead:
			result.OldestLedger = result.LatestLedger + 1000
			result.LatestLedger += 2000
		case FaultFrozen:
			result.LatestLedger = f.Ledger
		default:
			result.LatestLedger = max(result.OldestLedger, f.Ledger/2)
		}
		answer.Result = result
	case protocol.GetLedgersResponse:
		var kept []protocol.LedgerInfo
		for _, l := range result.Ledgers {
			switch {
			case f.Kind == FaultGap && l.Sequence == f.Ledger:
				continue
			case f.Kind == FaultReset && l.Sequence >= f.Ledger:
				l = ofAnotherChain(l)
			case f.Kind == FaultForm:
				l = ofAnotherForm(l)
			}
			kept = append(kept, l)
		}
		result.Ledgers = kept
		answer.Result = result
	}
}

// ofAnotherForm is the ledger with the number of a form that is yet to be invented.
func ofAnotherForm(info protocol.LedgerInfo) protocol.LedgerInfo {
	raw, err := base64.StdEncoding.DecodeString(info.LedgerMetadata)
	if err != nil {
		return info
	}
	binary.BigEndian.PutUint32(raw, 9)
	info.LedgerMetadata = base64.StdEncoding.EncodeToString(raw)
	return info
}

// ofAnotherChain is the ledger as another history would have it: after another ledger, and all
// else the same.
func ofAnotherChain(info protocol.LedgerInfo) protocol.LedgerInfo {
	raw, err := base64.StdEncoding.DecodeString(info.LedgerMetadata)
	if err != nil {
		return info
	}
	var meta xdr.LedgerCloseMeta
	if err := xdr.SafeUnmarshal(raw, &meta); err != nil {
		return info
	}
	header := meta.V2.LedgerHeader.Header
	header.PreviousLedgerHash[0] ^= 0xff
	if meta.V2.LedgerHeader, err = hashHeader(header); err != nil {
		return info
	}
	if raw, err = meta.MarshalBinary(); err != nil {
		return info
	}
	info.Hash, info.LedgerMetadata = meta.LedgerHash().HexString(),
		base64.StdEncoding.EncodeToString(raw)
	return info
}
