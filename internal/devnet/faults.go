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

// FaultKind is a way in which the devnet's RPC misbehaves on request.
type FaultKind string

// Kinds of faults. They only affect the responses of getHealth and getLedgers.
const (
	FaultErrors       FaultKind = "errors"       // HTTP 503
	FaultUnauthorized FaultKind = "unauthorized" // HTTP 401
	FaultQuota        FaultKind = "quota"        // HTTP 429
	FaultGarbage      FaultKind = "garbage"      // truncated JSON
	FaultHang         FaultKind = "hang"         // no response
	FaultGap          FaultKind = "gap"          // the ledger is missing from pages
	FaultReset        FaultKind = "reset"        // the ledger and later ones are from another chain
	FaultForm         FaultKind = "form"         // ledgers have an unknown form
	FaultBehind       FaultKind = "behind"       // the latest ledger is half of the ledger's number
	FaultFrozen       FaultKind = "frozen"       // the ledger appears to be the latest one
	FaultAhead        FaultKind = "ahead"        // the next thousand ledgers appear to be trimmed
)

// FaultKinds returns all kinds.
func FaultKinds() []FaultKind {
	return []FaultKind{
		FaultErrors, FaultGarbage, FaultGap, FaultBehind, FaultReset, FaultFrozen, FaultAhead, FaultForm,
		FaultUnauthorized, FaultQuota, FaultHang,
	}
}

func (k FaultKind) spoils(method string) bool {
	switch k {
	case FaultGap, FaultReset, FaultForm:
		return method == protocol.GetLedgersMethodName
	case FaultBehind, FaultFrozen, FaultAhead:
		return method == protocol.GetHealthMethodName
	default:
		return method == protocol.GetLedgersMethodName || method == protocol.GetHealthMethodName
	}
}

const hangTime = 2 * time.Second

// Fault spoils a number of responses, starting when the network closes a ledger.
type Fault struct {
	Kind    FaultKind
	Ledger  uint32
	Answers int
}

// String returns the fault in the format of ParseFaults.
func (f Fault) String() string { return fmt.Sprintf("%s@%dx%d", f.Kind, f.Ledger, f.Answers) }

// ParseFaults parses a comma-separated list of faults, such as errors@30x10,gap@50. KIND@LEDGER
// spoils one response, KIND@LEDGERxN spoils N responses.
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
	return faults, nil
}

func parseFault(text string) (f Fault, err error) {
	kind, rest, ok := strings.Cut(text, "@")
	ledger, answers, repeated := strings.Cut(rest, "x")
	sequence, err := strconv.ParseUint(ledger, 10, 31)
	f = Fault{Kind: FaultKind(kind), Ledger: uint32(sequence), Answers: 1}
	if repeated && err == nil {
		f.Answers, err = strconv.Atoi(answers)
	}
	if !ok || err != nil || sequence == 0 || f.Answers < 1 {
		return f, errors.New("must be KIND@LEDGER or KIND@LEDGERxANSWERS, such as errors@30x10")
	}
	if !slices.Contains(FaultKinds(), f.Kind) {
		return f, fmt.Errorf("the kind must be one of %q", FaultKinds())
	}
	return f, nil
}

type stage struct {
	mu     sync.Mutex
	faults []Fault
}

func (s *stage) next(method string, latest uint32) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) == 0 || latest < s.faults[0].Ledger || !s.faults[0].Kind.spoils(method) {
		return Fault{}, false
	}
	f := &s.faults[0]
	taken := *f
	if f.Answers--; f.Answers == 0 {
		s.faults = s.faults[1:]
	}
	return taken, true
}

func (n *Network) spoil(
	ctx context.Context, w http.ResponseWriter, method string, answer *rpcResponse,
) (spoiled bool) {
	n.mu.RLock()
	latest := n.tip.latest
	n.mu.RUnlock()
	f, ok := n.stage.next(method, latest)
	if !ok {
		return false
	}
	n.cfg.Logger.Info("an answer is spoiled as ordered", "fault", f.Kind, "method", method)
	status := map[FaultKind]int{
		FaultErrors:       http.StatusServiceUnavailable,
		FaultUnauthorized: http.StatusUnauthorized,
		FaultQuota:        http.StatusTooManyRequests,
	}[f.Kind]
	switch {
	case status != 0:
		http.Error(w, "ordered to fail", status)
	case f.Kind == FaultGarbage:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{"ledgers":[{"sequence":"`))
	case f.Kind == FaultHang:
		timer := time.NewTimer(hangTime)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		panic(http.ErrAbortHandler)
	default:
		if answer != nil && answer.Error == nil {
			f.distort(answer)
		}
		writeJSON(w, http.StatusOK, answer)
	}
	return true
}

func (f Fault) distort(answer *rpcResponse) {
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
		if f.Kind == FaultGap {
			result.Ledgers = slices.DeleteFunc(result.Ledgers,
				func(l protocol.LedgerInfo) bool { return l.Sequence == f.Ledger })
		}
		for i := range result.Ledgers {
			l := &result.Ledgers[i]
			switch {
			case f.Kind == FaultReset && l.Sequence >= f.Ledger:
				moveToAnotherChain(l)
			case f.Kind == FaultForm:
				raw, _ := base64.StdEncoding.DecodeString(l.LedgerMetadata)
				binary.BigEndian.PutUint32(raw, 9) // a version that does not exist
				l.LedgerMetadata = base64.StdEncoding.EncodeToString(raw)
			}
		}
		answer.Result = result
	}
}

// moveToAnotherChain changes the previous ledger's hash and updates the ledger's own hash.
func moveToAnotherChain(l *protocol.LedgerInfo) {
	var meta xdr.LedgerCloseMeta
	if xdr.SafeUnmarshalBase64(l.LedgerMetadata, &meta) != nil {
		return // can't happen, because we encoded it
	}
	entry := &meta.V2.LedgerHeader
	entry.Header.PreviousLedgerHash[0] ^= 0xff
	entry.Hash = hashOf(entry.Header)
	l.Hash, l.LedgerMetadata = entry.Hash.HexString(), base64XDR(meta)
}
