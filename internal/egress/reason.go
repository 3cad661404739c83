package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"syscall"
	"unicode"
)

// Stages of an attempt, as used in Result.Detail.
const (
	stageResolve = "resolve the host name"
	stageProxy   = "connect through the egress proxy"
	stageConnect = "connect"
	stageTLS     = "TLS handshake"
	stageSend    = "send the request"
	stageWait    = "wait for the response"
	stageHeader  = "read the response header"
	stageBody    = "read the response body"
)

type stageError struct {
	code  Code
	stage string
	err   error
	told  string // for the account holder; empty: the text of err
}

func (e *stageError) Error() string { return e.stage + ": " + e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

func inStage(code Code, stage string, err error) error {
	return &stageError{code: code, stage: stage, err: err}
}

func stageOf(err error) string {
	var stage *stageError
	if errors.As(err, &stage) {
		return stage.stage
	}
	return stageWait
}

// classify returns the specification's code for an error. Exceeded deadlines and forbidden
// addresses take precedence over the stage. An alert that rejects the handshake may arrive after
// it: in TLS 1.3, the client finishes before the server has read the client's last message.
func classify(err error) Code {
	var stage *stageError
	var op *net.OpError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errForbidden):
		return SSRFBlocked
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Timeout
	case errors.As(err, &op) && op.Op == "remote error" && stageOf(err) == stageWait:
		return TLS
	case errors.As(err, &stage):
		return stage.code
	default:
		return ConnRefused
	}
}

const maxReasonBytes = 200

// reason describes an error to the account holder, without addresses of our own infrastructure.
func (p *Policy) reason(err error) string {
	if err == nil {
		return ""
	}
	return oneLine(p.hideInternal(stageOf(err) + ": " + cause(err)))
}

// cause describes an error without the addresses that errors of package net contain.
func cause(err error) string {
	var stage *stageError
	var op *net.OpError
	var number syscall.Errno
	switch {
	case errors.Is(err, errForbidden):
		return "the host has a private or internal address, which the setting egress-allow does not " +
			"include"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "timed out"
	case errors.As(err, &stage) && stage.told != "":
		return stage.told
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "the receiver closed the connection"
	case errors.As(err, &op):
		return op.Op + ": " + op.Err.Error()
	case stage != nil:
		return stage.err.Error() + chainHint(err)
	}
	return err.Error()
}

// chainHint describes the certificates sent if none was signed by a known authority. Usually, the
// receiver has not sent its intermediate certificate.
func chainHint(err error) string {
	var unknown x509.UnknownAuthorityError
	var failed *tls.CertificateVerificationError
	if !errors.As(err, &unknown) || !errors.As(err, &failed) {
		return ""
	}
	chain := failed.UnverifiedCertificates
	last := chain[len(chain)-1]
	if string(last.RawIssuer) == string(last.RawSubject) {
		return " (self-signed; add it to egress-ca?)"
	}
	return fmt.Sprintf(" (certificates sent: %d, the last one issued by %q; is an intermediate "+
		"or egress-ca missing?)", len(chain), last.Issuer.CommonName)
}

func lookupReason(err error) string {
	var failed *net.DNSError
	switch {
	case errors.As(err, &failed) && failed.IsNotFound:
		return "no such host"
	case errors.As(err, &failed) && !failed.IsTimeout:
		return "the name server failed"
	}
	return "no name server answered"
}

var addressLike = regexp.MustCompile(`\d+(\.\d+){3}|[[:xdigit:]]*:[[:xdigit:]:]*:[[:xdigit:]:.]*`)

func (p *Policy) hideInternal(text string) string {
	return addressLike.ReplaceAllStringFunc(text, func(word string) string {
		for _, text := range []string{word, strings.TrimRight(word, "."), strings.TrimSuffix(word, ":")} {
			addr, err := netip.ParseAddr(text)
			if err == nil && (forbidden(addr.Unmap()) || containsAddr(p.Deny, addr.Unmap())) {
				return "an internal address"
			}
		}
		return word
	})
}

// oneLine returns text as one line of limited length, with spaces for unprintable characters.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) > maxReasonBytes {
		const more = "…"
		text = strings.ToValidUTF8(text[:maxReasonBytes-len(more)], "") + more
	}
	return text
}
