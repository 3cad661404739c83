package egress

import (
	"errors"
	"io"
	"slices"
	"sync"
)

// readChunkBytes is the size of a read; most answers fit in one.
const readChunkBytes = 4 << 10

var readChunks = sync.Pool{New: func() any { return new([readChunkBytes]byte) }}

// readBody reads at most max bytes of a body and keeps the first stored of them. tooLarge
// means that there is more than max, or that the bytes on the wire far exceed those of the
// body; the rest is left unread.
func readBody(body io.Reader, max, stored int) (kept []byte, tooLarge bool, err error) {
	chunk := readChunks.Get().(*[readChunkBytes]byte)
	defer readChunks.Put(chunk)
	for total := 0; ; {
		n, err := body.Read(chunk[:])
		total += n
		if free := stored - len(kept); free > 0 && n > 0 {
			kept = append(slices.Grow(kept, min(n, free)), chunk[:min(n, free)]...)
		}
		switch {
		case total > max:
			return kept, true, nil
		case errors.Is(err, io.EOF):
			return kept, false, nil
		case errors.Is(err, errSentTooMuch): // in frames of a byte or two
			return kept, true, nil
		case err != nil:
			return kept, false, err
		}
	}
}
