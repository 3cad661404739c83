package clickhouse

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	openingMax      = 10 * time.Second
	openingBytesMax = 16 << 10
	requestHeadMax  = 256 << 10 // of a stranger: with every connection, less than 100 MiB in all

	helloPacket     = 0 // packet numbers from ClickHouse's Core/Protocol.h
	exceptionPacket = 2

	codeUnexpectedPacket = 101 // error code from ClickHouse's Common/ErrorCodes.cpp
)

// nativeHandshake reads the first packet of ClickHouse's native protocol and rejects clients that
// may not log in. It refers HTTP clients to httpURL.
func nativeHandshake(allowed func(user, password string) bool, httpURL string) handshake {
	return func(client io.Reader) (opening, error) {
		var all bytes.Buffer
		r := bufio.NewReader(io.LimitReader(io.TeeReader(client, &all), openingBytesMax))
		user, password, err := readHello(r)
		switch {
		case errors.Is(err, errHTTP):
			return opening{refusal: httpRefusal(httpURL)}, nil
		case errors.Is(err, errNoHello):
			return opening{refusal: exception(codeUnexpectedPacket, "Unexpected packet from client: "+
				"a connection begins with Hello, in at most 16 KiB")}, nil
		case err != nil:
			return opening{}, err
		case !allowed(user, password):
			return opening{refusal: exception(codeAuthenticationFailed, user+": Authentication failed: "+
				"password is incorrect, or there is no user with such name.")}, nil
		}
		return opening{said: all.Bytes(), proven: true}, nil
	}
}

func httpHandshake(allowed func(user, password string) bool) handshake {
	return func(client io.Reader) (opening, error) {
		var all bytes.Buffer
		r := bufio.NewReader(io.LimitReader(io.TeeReader(client, &all), requestHeadMax))
		request, err := http.ReadRequest(r)
		var failed net.Error
		if errors.As(err, &failed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return opening{}, err // incomplete header
		}
		// The server rejects a malformed header.
		return opening{said: all.Bytes(), proven: err == nil && allowed(httpLogin(request))}, nil
	}
}

// httpLogin returns a request's user and password, which may be in three places, as in ClickHouse.
func httpLogin(r *http.Request) (user, password string) {
	if user, password, ok := r.BasicAuth(); ok {
		return user, password
	}
	if user = r.Header.Get("X-ClickHouse-User"); user != "" {
		return user, r.Header.Get("X-ClickHouse-Key")
	}
	query := r.URL.Query()
	return query.Get("user"), query.Get("password")
}

var (
	errHTTP    = errors.New("an HTTP request")
	errNoHello = errors.New("no Hello of ClickHouse's native protocol")
)

// readHello reads a Hello packet: the client's name, version and revision, the database, the user
// and the password.
func readHello(r *bufio.Reader) (user, password string, err error) {
	for _, method := range []string{"GET ", "POST ", "PUT ", "HEAD ", "OPTIONS "} {
		if first, err := r.Peek(1); err != nil {
			return "", "", err
		} else if first[0] != method[0] {
			continue
		}
		if text, err := r.Peek(len(method)); err == nil && string(text) == method {
			return "", "", errHTTP
		}
	}
	h := helloReader{r: r}
	if h.number() != helloPacket && h.err == nil {
		return "", "", errNoHello
	}
	h.text() // the client's name
	for range 3 {
		h.number() // major and minor version, revision
	}
	h.text() // the database
	user, password = h.text(), h.text()
	return user, password, h.err
}

// helloReader keeps the first error.
type helloReader struct {
	r   *bufio.Reader
	err error
}

func (h *helloReader) number() (n uint64) {
	if h.err == nil {
		n, h.err = binary.ReadUvarint(h.r)
	}
	return n
}

func (h *helloReader) text() string {
	n := h.number()
	if h.err == nil && n > openingBytesMax {
		h.err = errNoHello
	}
	if h.err != nil {
		return ""
	}
	b := make([]byte, n)
	_, h.err = io.ReadFull(h.r, b)
	return string(b)
}

// exception returns the server packet that reports an error before the connection is closed.
func exception(code uint32, message string) []byte {
	b := binary.AppendUvarint(nil, exceptionPacket)
	b = binary.LittleEndian.AppendUint32(b, code)
	const name = "DB::Exception"
	for _, text := range []string{name, name + ": " + message, ""} { // the last one is the stack trace
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	return append(b, 0) // no nested exception
}

func httpRefusal(httpURL string) []byte {
	body := "This port speaks ClickHouse's native protocol. HTTP is spoken at " + httpURL + "\n"
	return fmt.Appendf(nil, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"+
		"Content-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
}
