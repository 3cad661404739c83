package trial

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/lumenhook/lumenhook/internal/lab/draw"
)

const (
	accounts = 3
	wallets  = 6
	payers   = draw.Payers
	// opMillis is the mean time between two operations of a script.
	opMillis = 60
	// attackEvery is how many operations have one attack of the hostile tenant among them.
	attackEvery = 12
)

// Generate returns a script of n operations, which is a function of the seed. Every fifth seed is
// heavy: a few wallets get bursts of payments, so that logs grow beyond one fetch.
func Generate(seed uint64, n int) []Op {
	g := &generator{
		Source:  draw.Source{Rand: rand.New(rand.NewPCG(seed, 16))}, // #nosec G404 -- must repeat
		fresh:   wallets,
		of:      map[string]watching{},
		wallets: wallets,
		heavy:   seed%5 == 0,
	}
	if g.heavy {
		g.wallets = 2
	}
	for account := range accounts {
		for range 2 {
			g.add(g.createEndpoint(account))
			g.add(g.createWatch(account))
		}
	}
	for attackAt := attackEvery; len(g.ops) < n; {
		g.now += g.IntN(2 * opMillis)
		g.step()
		if len(g.ops) >= attackAt {
			g.add(g.attack())
			attackAt += attackEvery
		}
	}
	return g.ops[:n]
}

type generator struct {
	draw.Source
	ops       []Op
	now       int
	endpoints [accounts][]string
	watches   [accounts][]string
	of        map[string]watching // by watch
	wallets   int                 // number of wallets that are paid
	heavy     bool
	fresh     int // index of the next wallet that doesn't exist yet
	named     int
	attacks   []string // not yet drawn
}

type watching struct{ wallet, endpoint string }

func (g *generator) add(op Op) {
	op.At = g.now
	g.ops = append(g.ops, op)
}

func (g *generator) step() {
	account := g.IntN(accounts)
	if op := draw.ByWeight(g.Source, g.choices())(account); op.Do != "" {
		g.add(op)
	}
}

func (g *generator) choices() []draw.Choice[func(account int) Op] {
	return []draw.Choice[func(account int) Op]{
		{40, func(int) Op { return g.pay() }},
		{4, g.createEndpoint}, {3, g.patchEndpoint}, {3, g.deleteEndpoint},
		{3, g.onEndpoint("disable")}, {4, g.onEndpoint("enable")},
		{2, g.onEndpoint("rotate-secret")}, {3, g.onEndpoint("replay")}, {8, g.receiver},
		{5, g.createWatch}, {9, g.patchWatch}, {2, g.deleteWatch}, {6, g.backfill},
		{6, g.orphan}, {5, g.correct}, {4, g.resend}, {6, func(int) Op { return g.chaos() }},
	}
}

func lane(account int) string { return fmt.Sprintf("a%d", account) }

func (g *generator) name(prefix string) string {
	g.named++
	return fmt.Sprintf("%s%d", prefix, g.named-1)
}

var (
	modes = []string{
		"ok", "ok", "ok", "ok", "503", "404", "410", "redirect", "slow", "reset", "hang", "large",
		"half", "cut",
	}
	servers = []string{"h2", "h2", "h1", "h1", "closed", "badtls"}
)

func (g *generator) endpoint(account int) string { return draw.Of(g.Source, g.endpoints[account]) }

func (g *generator) watch(account int) string { return draw.Of(g.Source, g.watches[account]) }

func (g *generator) createEndpoint(account int) Op {
	op := Op{Lane: lane(account), Do: "endpoint.create", Endpoint: g.name("e")}
	op.Mode = "h2"
	if len(g.endpoints[account]) > 1 {
		op.Mode = draw.Of(g.Source, servers)
	}
	op.Text = fmt.Sprintf("endpoint %d", g.IntN(1000))
	g.repeat(&op)
	g.endpoints[account] = append(g.endpoints[account], op.Endpoint)
	return op
}

func (g *generator) repeat(op *Op) { op.Repeat = g.One(4) }

func (g *generator) patchEndpoint(account int) Op {
	op := Op{Lane: lane(account), Do: "endpoint.patch", Endpoint: g.endpoint(account)}
	op.Mode = draw.Of(g.Source, []string{"description", "url"})
	op.Text, op.N = fmt.Sprintf("described %d", g.IntN(1000)), g.IntN(5)
	g.repeat(&op)
	return op
}

func (g *generator) deleteEndpoint(account int) Op {
	if len(g.endpoints[account]) < 3 {
		return Op{}
	}
	op := Op{Lane: lane(account), Do: "endpoint.delete", Endpoint: g.endpoint(account)}
	if g.One(3) {
		op.Mode = "refuse" // if it has watches
		return op
	}
	g.endpoints[account] = without(g.endpoints[account], op.Endpoint)
	return op
}

func without(names []string, gone string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == gone })
}

func (g *generator) onEndpoint(do string) func(int) Op {
	return func(account int) Op {
		op := Op{Lane: lane(account), Do: "endpoint." + do, Endpoint: g.endpoint(account)}
		op.N = g.IntN(3)
		g.repeat(&op)
		return op
	}
}

func (g *generator) receiver(account int) Op {
	return Op{Lane: lane(account), Do: "receiver", Endpoint: g.endpoint(account),
		Mode: draw.Of(g.Source, modes)}
}

func (g *generator) wallet() string { return fmt.Sprintf("g%d", g.IntN(g.wallets)) }

func (g *generator) createWatch(account int) Op {
	op := Op{Lane: lane(account), Do: "watch.create", Watch: g.name("w"), Wallet: g.wallet()}
	if g.One(5) {
		op.Wallet = fmt.Sprintf("g%d", g.fresh) // does not exist yet
	}
	op.Endpoint, op.Rules = g.endpoint(account), g.rules()
	op.Text = fmt.Sprintf("label %d %s", g.IntN(100), strings.Repeat("é", g.IntN(3)*40))
	g.repeat(&op)
	g.watches[account] = append(g.watches[account], op.Watch)
	g.of[op.Watch] = watching{op.Wallet, op.Endpoint}
	return op
}

func (g *generator) rules() *draw.Rules {
	r := g.Rules()
	if g.One(4) {
		r.Expires = 1 + g.IntN(g.now+50*opMillis) // past, or soon
	}
	return r
}

func (g *generator) patchWatch(account int) Op {
	if len(g.watches[account]) == 0 {
		return Op{}
	}
	op := Op{Lane: lane(account), Do: "watch.patch", Watch: g.watch(account)}
	switch op.Mode = draw.Of(g.Source, []string{"move", "move", "move", "rules", "label"}); op.Mode {
	case "move":
		op.Endpoint = g.endpoint(account)
		g.of[op.Watch] = watching{g.of[op.Watch].wallet, op.Endpoint}
	case "rules":
		op.Rules = g.rules()
	default:
		op.Text = fmt.Sprintf("relabelled %d", g.IntN(100))
	}
	g.repeat(&op)
	return op
}

func (g *generator) deleteWatch(account int) Op {
	if len(g.watches[account]) < 2 {
		return Op{}
	}
	op := Op{Lane: lane(account), Do: "watch.delete", Watch: g.watch(account)}
	g.watches[account] = without(g.watches[account], op.Watch)
	return op
}

// backfill requests up to N ledgers before the current one.
func (g *generator) backfill(account int) Op {
	if len(g.watches[account]) == 0 {
		return Op{}
	}
	op := Op{Lane: lane(account), Do: "watch.backfill", Watch: g.watch(account),
		N: 5 + g.IntN(150)}
	op.Mode = draw.Of(g.Source, []string{"wait", "wait", "leave", "bounded"})
	return op
}

// orphan deletes a watch's endpoint, which is rejected first, pays the wallet, and gives the watch
// another endpoint.
func (g *generator) orphan(account int) Op {
	watch, of := g.anyWatch(account)
	if len(g.endpoints[account]) < 3 || !slices.Contains(g.endpoints[account], of.endpoint) {
		return Op{}
	}
	op := Op{Lane: lane(account), Do: "watch.patch", Watch: watch, Mode: "rules"}
	op.Rules = draw.Anything()
	g.add(op)
	gone := Op{Lane: lane(account), Do: "endpoint.delete", Endpoint: of.endpoint, Mode: "refuse"}
	g.add(gone)
	gone.Mode = ""
	g.add(gone)
	g.endpoints[account] = without(g.endpoints[account], of.endpoint)
	g.payLater(of.wallet)
	next := g.endpoint(account)
	g.of[watch] = watching{of.wallet, next}
	return Op{Lane: lane(account), Do: "watch.patch", Watch: watch, Mode: "move", Endpoint: next}
}

// correct pays a watch whose rules reject the payment, corrects the rules, and backfills the watch.
func (g *generator) correct(account int) Op {
	watch, of := g.anyWatch(account)
	if of.wallet == "" {
		return Op{}
	}
	rules := draw.Anything()
	rules.Amount, rules.Low = "exact", 1
	op := Op{Lane: lane(account), Do: "watch.patch", Watch: watch, Mode: "rules", Rules: rules}
	g.add(op)
	g.payLater(of.wallet)
	op.Rules = draw.Anything()
	g.add(op)
	return Op{Lane: lane(account), Do: "watch.backfill", Watch: watch, N: 60, Mode: "wait"}
}

func (g *generator) anyWatch(account int) (watch string, of watching) {
	if len(g.watches[account]) > 0 {
		watch = g.watch(account)
	}
	return watch, g.of[watch]
}

// payLater pays a wallet, with time for a few ledgers before and after.
func (g *generator) payLater(wallet string) {
	g.now += 10 * opMillis
	op := g.pay()
	op.Wallet, op.Pay.Creates = wallet, false
	g.add(op)
	g.now += 20 * opMillis
}

func (g *generator) resend(account int) Op {
	op := Op{Lane: lane(account), Do: "event.resend", N: g.IntN(50)}
	if g.One(2) {
		op.Mode = "cancelled"
	}
	g.repeat(&op)
	return op
}

// pay returns a payment to a wallet, several or a hundred payments in one transaction, or one that
// creates the wallet.
func (g *generator) pay() Op {
	p := &Pay{Payer: g.IntN(payers), Amount: g.Amount(), Memo: g.Memo()}
	op := Op{Lane: fmt.Sprintf("p%d", p.Payer), Do: "pay", Wallet: g.wallet(), Pay: p}
	if g.One(4) {
		id := g.Uint64N(3) << 40
		p.Muxed = &id
	}
	switch n := g.IntN(12); {
	case n == 0 || g.heavy && n < 4:
		p.Times, p.Amount = 100, draw.StroopsPerUnit/10
	case n == 4:
		p.Times = 2 + g.IntN(5)
	case n == 5:
		op.Wallet, p.Creates, p.Muxed = fmt.Sprintf("g%d", g.fresh), true, nil
		g.fresh++
	}
	return op
}

// attack draws all attacks once before it repeats one, so every seed has each.
func (g *generator) attack() Op {
	if len(g.attacks) == 0 {
		g.attacks = slices.Clone(Attacks)
	}
	mode := draw.Of(g.Source, g.attacks)
	g.attacks = without(g.attacks, mode)
	return Op{Lane: "hostile", Do: "attack", Mode: mode, N: 200 + g.IntN(1500)}
}

func (g *generator) chaos() Op {
	op := Op{Lane: "chaos", Do: draw.Of(g.Source, []string{
		"kill", "kill", "kill-held", "kill-held", "kill-held", "kill-post",
		"stop", "pause", "lose-engine", "lose-directory", "lose-state", "lose-history",
		"tear-history", "tear-history", "rebuild",
		"rebuild", "rebuild-killed", "verify",
	})}
	switch op.Do {
	case "tear-history":
		op.N = g.IntN(1 << 16)
	case "kill-held":
		op.Point = draw.Of(g.Source, []string{
			"append ledgers", "append matches", "append payments", "commit engine", "positions engine",
			"append journal", "append commands", "commit follower",
		})
	case "rebuild", "rebuild-killed":
		op.Lane, op.N = "rebuilds", 50+g.IntN(1500)
	case "pause":
		op.N = 200 + g.IntN(3000)
	}
	return op
}
