package trial

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// signedMargin is how long after the response to a change an attempt may not reflect it, because it
// was already being sent.
const signedMargin = 500 * time.Millisecond

// checkPosts compares each post with the others of the same id, and its signature with the
// endpoint's secrets.
func (b *observed) checkPosts() {
	b.checkForged()
	for id, posts := range b.posts {
		if _, known := b.events[id]; !known {
			b.violate("POSTS", "%s was posted to %s and is in no list", id, posts[0].endpoint)
			continue
		}
		first := posts[0]
		for _, p := range posts {
			if !bytes.Equal(p.body, first.body) {
				b.violate("BODIES", "%s was posted with two bodies:\n%s\n%s", id, first.body, p.body)
			}
			if p.endpoint != first.endpoint && !b.endpointOf(first.endpoint).ended() {
				b.violate("TWO-ENDPOINTS", "%s was posted to %s and to %s", id, first.endpoint, p.endpoint)
			}
			b.checkPost(p)
		}
	}
}

func (e *endpoint) ended() bool { return e == nil || !e.deletedAsked.IsZero() }

func (w *world) endpointOf(slot string) *endpoint {
	for _, a := range w.accounts {
		if e := a.endpoints[slot]; e != nil {
			return e
		}
	}
	return nil
}

func (b *observed) checkPost(p *post) {
	e := b.endpointOf(p.endpoint)
	if e == nil {
		b.violate("POSTS", "%s was posted to %s, which is no endpoint", p.id, p.endpoint)
		return
	}
	if p.mime != "application/json" {
		b.violate("POSTS", "%s was posted as %q", p.id, p.mime)
	}
	seconds, err := strconv.ParseInt(p.timestamp, 10, 64)
	if age := p.at.Unix() - seconds; err != nil || len(p.timestamp) > 12 || age < -5 || age > 60 {
		b.violate("SIGNATURES", "%s came at %d with the timestamp %q", p.id, p.at.Unix(), p.timestamp)
	}
	if !e.deleted.IsZero() && p.at.After(e.deleted.Add(attemptTimeout)) &&
		!b.service.disturbed(e.deleted, p.at) {
		b.violate("DELETED", "%s was posted to %s %s after it was deleted", p.id, e.slot,
			p.at.Sub(e.deleted))
	}
	b.checkSignature(p, e)
}

// checkSignature checks that there is a signature for each secret that was certainly valid, and
// none for a secret that was certainly not valid.
func (b *observed) checkSignature(p *post, e *endpoint) {
	given := strings.Split(p.signature, ",")
	for i, value := range given {
		given[i] = strings.TrimPrefix(strings.TrimSpace(value), "v1=")
	}
	named := 0
	for _, s := range e.secrets {
		mac := hmac.New(sha256.New, []byte(s.text))
		_, _ = mac.Write([]byte(p.timestamp + "."))
		_, _ = mac.Write(p.body)
		signed := slices.Contains(given, hex.EncodeToString(mac.Sum(nil)))
		if signed {
			named++
		}
		surely := s.known.Add(signedMargin)
		if !signed && p.at.After(surely) && !b.service.disturbed(s.known, p.at) {
			b.violate("SIGNATURES", "%s to %s is not signed with a secret that was valid", p.id, e.slot)
		}
		if signed && p.at.Before(s.asked) {
			b.violate("SIGNATURES", "%s to %s was signed with a secret before it was made", p.id, e.slot)
		}
	}
	if named != len(given) {
		b.violate("SIGNATURES", "%s to %s: %d of %d signatures are of its secrets: %q", p.id, e.slot,
			named, len(given), p.signature)
	}
}

// checkAttempts checks that the history has each post as an attempt, except those in flight at a
// kill, and no attempt with a response that no post got (G7).
func (b *observed) checkAttempts() {
	for id, attempts := range b.attempts {
		if _, known := b.events[id]; !known {
			b.violate("ATTEMPTS", "the history has attempts of %s, which is in no list", id)
		}
		for i, a := range attempts { // numbers continue when the event moves
			if a.Number != i+1 {
				b.violate("ATTEMPTS", "attempt %d of %s has the number %d", i+1, id, a.Number)
			}
		}
	}
	for id, posts := range b.posts {
		b.matchPosts(id, posts, slices.Clone(b.attempts[id]))
	}
	for id, attempts := range b.attempts {
		b.checkAnswers(id, attempts)
	}
}

// readLate is how long after the sender's timeout a receiver may read a post. The bytes are in the
// socket, and a busy machine reads them late.
const readLate = time.Second

// matchPosts assigns each post to its attempt, by the mark in its response or by time.
func (b *observed) matchPosts(id string, posts []*post, open []attempt) {
	var unmatched []*post
	for _, p := range posts {
		at := slices.IndexFunc(open, func(a attempt) bool { return strings.HasPrefix(a.Body, p.mark()) })
		if at < 0 {
			unmatched = append(unmatched, p)
			continue
		}
		if a := open[at]; a.Status == nil || *a.Status != p.status {
			b.violate("ATTEMPTS", "attempt %d of %s has the status %s where %d was answered", a.Number, id,
				status(a.Status), p.status)
		}
		open = slices.Delete(open, at, at+1)
	}
	for _, p := range unmatched {
		at := slices.IndexFunc(open, func(a attempt) bool {
			return a.Body == "" && !p.at.Before(a.sentAt().Add(-20*time.Millisecond)) &&
				!p.at.After(a.ended().Add(readLate))
		})
		switch {
		case at >= 0:
			open = slices.Delete(open, at, at+1)
		case !b.service.lostTo(p.at):
			b.violate("G7", "post %d (%s, at %s) of %s to %s is no attempt in the history: it has %s",
				p.n, p.mode, p.at.Format("15:04:05.000"), id, p.endpoint, numbers(b.attempts[id]))
		}
	}
}

func status(n *int) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(*n)
}

func numbers(attempts []attempt) string {
	text := ""
	for _, a := range attempts {
		text += fmt.Sprintf(" %d at %s (%d ms) %s %s %q;", a.Number, a.sentAt().Format("15:04:05.000"),
			a.Took, status(a.Status), a.Error, a.Body)
	}
	return text
}

// checkAnswers checks that each attempt's result follows from its response.
func (b *observed) checkAnswers(id string, attempts []attempt) {
	for _, a := range attempts {
		good := a.Status != nil && *a.Status/100 == 2 && (a.Error == "" || a.Error == "BODY_TOO_LARGE")
		if good != (a.State == "DELIVERED") {
			b.violate("ATTEMPTS", "attempt %d of %s: %s %q led to %s", a.Number, id, status(a.Status),
				a.Error, a.State)
		}
		if a.Status != nil && *a.Status/100 == 3 && a.Error != "REDIRECT" {
			b.violate("ATTEMPTS", "attempt %d of %s: a redirect is said to be %q", a.Number, id, a.Error)
		}
		if a.Status == nil && a.Error == "" {
			b.violate("ATTEMPTS", "attempt %d of %s has neither a status nor an error", a.Number, id)
		}
	}
}
