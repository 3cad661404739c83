package projections

// row is a record's row in one table, with the record's position.
type row[B any] struct {
	body       B
	endpointID string
	atMillis   int64
	version    uint64
	partition  int32
	offset     int64
}

// rows are collected in pieces, which are also sent one by one. One slice would be copied
// again and again while it grows: that took a seventh of the projector's time.
type rows[B any] struct {
	pieces [][]row[B] // all but the last are full
	n      int
}

// A statement's rows are sent in pieces: the client's buffers grow to a piece and are
// reused for the next, while the server processes the former one. The server makes one part
// of all of them.
const pieceRows = 4096

func (l *rows[B]) add(r row[B]) {
	i := l.n / pieceRows
	if i == len(l.pieces) {
		capacity := 0 // the first grows as it is filled, for most blocks are small
		if i > 0 {
			capacity = pieceRows
		}
		l.pieces = append(l.pieces, make([]row[B], 0, capacity))
	}
	l.pieces[i] = append(l.pieces[i], r)
	l.n++
}

func (l *rows[B]) at(i int) *row[B] { return &l.pieces[i/pieceRows][i%pieceRows] }

// reset empties the list and keeps its memory.
func (l *rows[B]) reset() {
	for i, piece := range l.pieces {
		clear(piece) // releases what the rows point at
		l.pieces[i] = piece[:0]
	}
	l.n = 0
}
