package ledger_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

func gzipped(t testing.TB, raw []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func compressed(t testing.TB, raw []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	return z.EncodeAll(raw, nil)
}

func batchOf(first, last uint32, ledgers ...[]byte) []byte {
	raw := binary.BigEndian.AppendUint32(nil, first)
	raw = binary.BigEndian.AppendUint32(raw, last)
	raw = binary.BigEndian.AppendUint32(raw, uint32(len(ledgers)))
	return append(raw, bytes.Join(ledgers, nil)...)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// record is a ledger with a record mark, as in stellar-core's stream of them.
func record(raw []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(raw))), raw...)
}

// wrapped is text in lines of so many characters.
func wrapped(text string, columns int) (lines []byte) {
	for line := range slices.Chunk([]byte(text), columns) {
		lines = append(append(lines, line...), '\n')
	}
	return lines
}

// renumbered is ledger 100 under another sequence and with other hashes.
func renumbered(t testing.TB, raw []byte, sequence uint32) []byte {
	t.Helper()
	var whole xdr.LedgerCloseMeta
	if err := whole.UnmarshalBinary(raw); err != nil {
		t.Fatal(err)
	}
	whole.V2.LedgerHeader.Header.LedgerSeq = xdr.Uint32(sequence)
	whole.V2.LedgerHeader.Hash = xdr.Hash{byte(sequence)}
	whole.V2.LedgerHeader.Header.PreviousLedgerHash = xdr.Hash{byte(sequence - 1)}
	return marshal(t, whole)
}

func TestFilesOfEveryForm(t *testing.T) {
	a, b := readReal(t, 63092988), readReal(t, 57500008)
	text := base64.StdEncoding.EncodeToString
	for name, c := range map[string]struct {
		file []byte
		want [][]byte
	}{
		"raw":                {a, [][]byte{a}},
		"gzip":               {gzipped(t, a), [][]byte{a}},
		"zstd":               {compressed(t, a), [][]byte{a}},
		"base64":             {[]byte(text(a) + "\n"), [][]byte{a}},
		"lines of base64":    {[]byte("\n" + text(a) + "\r\n" + text(b)), [][]byte{a, b}},
		"batch of one":       {compressed(t, batchOf(5, 5, a)), [][]byte{a}},
		"batch of two":       {batchOf(5, 6, a, b), [][]byte{a, b}},
		"base64 of gzip":     {gzipped(t, []byte(text(batchOf(5, 6, b, a)))), [][]byte{b, a}},
		"gzip of zstd batch": {gzipped(t, compressed(t, batchOf(5, 6, b, a))), [][]byte{b, a}},

		"one after another":   {join(a, b, a), [][]byte{a, b, a}},
		"batches and ledgers": {join(batchOf(5, 6, a, b), b, batchOf(9, 9, a)), [][]byte{a, b, b, a}},
		"zstd after zstd": {
			join(compressed(t, batchOf(5, 5, a)), compressed(t, batchOf(6, 6, b))),
			[][]byte{a, b},
		},
		"gzip after gzip": {join(gzipped(t, a), gzipped(t, b)), [][]byte{a, b}},
		"a record":        {record(a), [][]byte{a}},
		"records": {
			join(record(a), record(b), record(batchOf(5, 5, a))), [][]byte{a, b, a},
		},
		"zstd of records":        {compressed(t, join(record(b), record(a))), [][]byte{b, a}},
		"base64 of records":      {[]byte(text(join(record(b), record(a)))), [][]byte{b, a}},
		"base64 in 76 columns":   {wrapped(text(a), 76), [][]byte{a}},
		"base64 in odd columns":  {wrapped(text(b), 61), [][]byte{b}},
		"base64 in lines, twice": {join(wrapped(text(a), 76), wrapped(text(b), 64)), [][]byte{a, b}},
		"base64 of a gzip":       {wrapped(text(gzipped(t, a)), 76), [][]byte{a}},
	} {
		got, err := ledger.ReadFile(bytes.NewReader(c.file))
		if err != nil || !slices.EqualFunc(got, c.want, bytes.Equal) {
			t.Errorf("%s: got %d ledgers (%v), want %d", name, len(got), err, len(c.want))
		}
	}
	for name, file := range map[string][]byte{
		"wrapped too often": gzipped(t, gzipped(t, gzipped(t, gzipped(t, a)))),
		"empty":             {},
		"blank":             []byte(" \n"),
		"no base64":         []byte("payments, please"),
		"cut gzip":          gzipped(t, a)[:1000], "cut zstd": compressed(t, a)[:1000],
		"cut batch": batchOf(5, 6, a, b[:1000]), "long batch": append(batchOf(5, 6, a, b), 0, 0, 0, 0),
		"cut ledger":         a[:len(a)-4],
		"one byte short":     a[:len(a)-1],
		"long ledger":        join(a, []byte{0, 0, 0, 0}),
		"a newline too many": join(a, []byte("\n")), "a second one cut": join(a, b[:1000]),
		"cut record":                  record(a)[:1000],
		"a second record cut":         join(record(a), record(b)[:3]),
		"record with more in it":      record(join(a, []byte{0, 0, 0, 0})),
		"record with less in it":      record(a[:len(a)-4]),
		"record in fragments":         join(record(a), []byte{0, 0, 0, 4}, a[:4], record(a[4:])),
		"no form at all":              {0xff, 0xfe, 0, 1, 2, 3},
		"cut base64":                  wrapped(text(a), 76)[:77*40],
		"base64 with a word too many": join([]byte(text(a)), []byte("\nAAAA")),
		"long gzip":                   join(gzipped(t, a), []byte("more")),
		"long zstd":                   join(compressed(t, a), []byte("more")),
	} {
		if got, err := ledger.ReadFile(bytes.NewReader(file)); err == nil {
			t.Errorf("%s: got %d ledgers and no error", name, len(got))
		}
	}
}

// What is wrong with a file, and where, stands in the error.
func TestFilesThatCannotBeReadSayWhy(t *testing.T) {
	a, b := readReal(t, 63092988), readReal(t, 57500008)
	for want, file := range map[string][]byte{
		"record 2 of the stream comes in fragments": join(record(a), []byte{0, 0, 0, 4}, a[:4],
			record(a[4:])),
		"ends inside the length of record 2":        join(record(a), []byte{0x80}),
		"as a stream of records it is cut short":    {0xff, 0xfe, 0, 1, 2, 3},
		"record 1 of the stream: after the first 1": record(join(a, []byte{0, 0, 0, 0})),
		"after the first 2 ledgers, at byte ":       join(a, b, []byte("\n")),
		"ledger 2 of a batch of 2":                  batchOf(5, 6, a, b[:1000]),
		"damaged or cut short":                      a[:len(a)-1],
		"as one text of ":                           wrapped(base64.StdEncoding.EncodeToString(a), 76)[:77*40],
		"word 1 is no base64":                       []byte("payments, please"),
	} {
		if _, err := ledger.ReadFile(bytes.NewReader(file)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Ledgers of a batch are told apart although one holds an unknown form, and in
// headers of CAP-88.
func TestBatchesOfTomorrow(t *testing.T) {
	strange := marked(0)
	plain := closeLedger(t, 2, payOne(1), strange, payOne(3))
	one := renumbered(t, plain, 101)
	two := makeUnknown(t, renumbered(t, plain, 102), strange, 0)
	three := forge(t, 2,
		xdr.StellarValue{Ext: xdr.StellarValueExt{
			V:                1,
			LcValueSignature: &xdr.LedgerCloseValueSignature{NodeId: xdr.NodeId(xdr.MustAddress(payer))},
		}},
		7)
	three = bytes.Replace(three, append([]byte{0xbb}, make([]byte, 31)...),
		append([]byte{102}, make([]byte, 31)...), 1)
	three = bytes.Replace(three, []byte{0, 0, 0, 100}, []byte{0, 0, 0, 103}, -1)
	four := makeUnknown(t, renumbered(t, plain, 104), strange, 0)
	got, err := ledger.ReadFile(bytes.NewReader(batchOf(101, 104, one, two, three, four)))
	if err != nil || !slices.EqualFunc(got, [][]byte{one, two, three, four}, bytes.Equal) {
		t.Fatalf("got %d ledgers (%v)", len(got), err)
	}
}

// A ledger with milliseconds in its header is measured in a part of the file,
// unless it takes more than that.
func TestALongLedgerOfTomorrowInAFile(t *testing.T) {
	long := xdr.ScBytes(make([]byte, 9<<20))
	big := event(usd, "note", xdr.ScVal{Type: xdr.ScValTypeScvBytes, Bytes: &long})
	form := xdr.StellarValueExt{
		V:                1,
		LcValueSignature: &xdr.LedgerCloseValueSignature{NodeId: xdr.NodeId(xdr.MustAddress(payer))},
	}
	one, two := forgeOf(t, 2, xdr.StellarValue{Ext: form}, 7, call(metaV4(1, big), xdr.Memo{})),
		forge(t, 2, xdr.StellarValue{Ext: form}, 8)
	got, err := ledger.ReadFile(bytes.NewReader(join(one, two, one)))
	if err != nil || !slices.EqualFunc(got, [][]byte{one, two, one}, bytes.Equal) {
		t.Fatalf("got %d ledgers (%v)", len(got), err)
	}
}

// Whatever a file holds, reading it ends, without a panic.
func FuzzReadFile(f *testing.F) {
	strange := marked(0)
	plain := closeLedger(f, 2, payOne(1), strange, payOne(3))
	batch := batchOf(101, 103, renumbered(f, plain, 101),
		makeUnknown(f, renumbered(f, plain, 102), strange, 0), renumbered(f, plain, 103))
	for _, seed := range [][]byte{
		plain, batch, compressed(f, batch), gzipped(f, plain),
		[]byte(base64.StdEncoding.EncodeToString(batch)),
		join(record(plain), record(plain)), join(plain, batch),
		wrapped(base64.StdEncoding.EncodeToString(plain), 76),
	} {
		f.Add(seed)
	}
	e := newExtractor(f, passphrase)
	f.Fuzz(func(t *testing.T, file []byte) {
		ledgers, err := ledger.ReadFile(bytes.NewReader(file))
		if err != nil {
			return
		}
		for _, raw := range ledgers {
			if l, err := e.Extract(raw); err == nil {
				checkPlausible(t, l)
				checkSucceeded(t, l, raw)
			}
		}
	})
}
