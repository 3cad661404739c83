package sha256x2

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// means are all that this processor has.
func means() map[string]func(int, func(int) (head, body []byte), func(int, [sha256.Size]byte)) {
	all := map[string]func(int, func(int) (head, body []byte), func(int, [sha256.Size]byte)){
		"one by one": oneByOne,
		"as it is":   Sums,
	}
	if available {
		all["in turns"] = inTurns
	}
	return all
}

// tellMeans says when a test that passes has not run the assembler.
func tellMeans(t *testing.T) {
	t.Helper()
	if !available {
		t.Log("the assembler is not run: it is for amd64 with a SHA unit, and not for FIPS 140")
	}
}

// same holds the hashes of messages against the standard library's.
func same(t *testing.T, heads, bodies [][]byte) {
	t.Helper()
	for name, sums := range means() {
		got := make([][sha256.Size]byte, len(bodies))
		var head [blockSizeBytes]byte // one for all: it may change
		asked := 0
		sums(len(bodies), func(i int) ([]byte, []byte) {
			if i != asked {
				t.Errorf("%s: message %d is asked for, and %d is next", name, i, asked)
			}
			asked++
			return head[:copy(head[:], heads[i])], bodies[i]
		}, func(i int, hash [sha256.Size]byte) { got[i] = hash })
		for i := range bodies {
			if got[i] != sha256.Sum256(slices.Concat(heads[i], bodies[i])) {
				t.Fatalf("%s: the hash of message %d of %d (%d and %d bytes) is wrong", name, i,
					len(bodies), len(heads[i]), len(bodies[i]))
			}
		}
	}
}

func random(seed uint64, sizeBytes int) []byte {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	all := make([]byte, sizeBytes)
	_, _ = rand.NewChaCha8(key).Read(all) // it never fails
	return all
}

// Each length around a block and its padding, with each head, beside a message of another length.
func TestEveryLength(t *testing.T) {
	tellMeans(t)
	data := random(1, 1024)
	for head := range blockSizeBytes {
		for body := range 3*blockSizeBytes + 2 {
			same(t, [][]byte{data[:head], data[head : head+head/2]},
				[][]byte{data[100 : 100+body], data[300 : 300+2*body]})
		}
	}
}

func TestAnyNumberOfMessages(t *testing.T) {
	tellMeans(t)
	data := random(2, 64<<10)
	chance := rand.New(rand.NewPCG(3, 4))
	for n := range 40 {
		heads, bodies := make([][]byte, n), make([][]byte, n)
		for i := range n {
			from := chance.IntN(len(data))
			heads[i] = data[:chance.IntN(blockSizeBytes)]
			bodies[i] = data[from : from+chance.IntN(min(len(data)-from, 1<<chance.IntN(17)))]
		}
		same(t, heads, bodies)
	}
}

func FuzzSums(f *testing.F) {
	f.Add([]byte("abc"), uint16(1), uint16(2), uint8(0))
	f.Add(random(5, 700), uint16(64), uint16(300), uint8(36))
	f.Fuzz(func(t *testing.T, data []byte, one, two uint16, head uint8) {
		first := min(int(one), len(data))
		second := min(first+int(two), len(data))
		h := min(int(head)%blockSizeBytes, len(data))
		same(t, [][]byte{data[:h], nil, data[:h/2]},
			[][]byte{data[:first], data[first:second], data[second:]})
	})
}

// BenchmarkSums hashes what is hashed of a ledger: a large message and many small ones.
func BenchmarkSums(b *testing.B) {
	const small, smallSizeBytes = 240, 800
	data := random(6, small*smallSizeBytes)
	for name, sums := range means() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(2 * int64(len(data)))
			for b.Loop() {
				sums(1+small, func(i int) (head, body []byte) {
					if i == 0 {
						return nil, data
					}
					return data[:36], data[(i-1)*smallSizeBytes : i*smallSizeBytes]
				}, func(int, [sha256.Size]byte) {})
			}
		})
	}
}

func Example() {
	messages := []string{"abc", ""}
	sums := make([][sha256.Size]byte, len(messages))
	Sums(len(messages), func(i int) (head, body []byte) { return nil, []byte(messages[i]) },
		func(i int, hash [sha256.Size]byte) { sums[i] = hash })
	fmt.Printf("%x\n%x\n", sums[0], sums[1])
	// Output:
	// ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad
	// e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
}
