package domain

// Command asks for a change. Its identifier makes it idempotent: asked again, it
// is answered as before and changes nothing.
type Command struct {
	ID             string
	AccountID      string
	BodyHash       []byte // SHA-256 of the request's body, to tell a repeat from another request
	IssuedAtMillis int64
	Body           CommandBody
}

// CommandBody is one kind of command.
type CommandBody interface {
	// CommandType is the name under which the command is kept in a topic.
	CommandType() string
	// Aggregate is the identifier of the account, endpoint or watch asked about.
	Aggregate() string
}

// CreateAccount asks for a new account with a first key.
type CreateAccount struct {
	AccountID string
	Email     string
	Key       Key
}

// CreateEndpoint asks for a new endpoint. The secret was sealed by the asker.
type CreateEndpoint struct {
	EndpointID   string
	AccountID    string
	URL          string
	Description  string
	SealedSecret []byte
}

// CreateWatch asks for a new watch.
type CreateWatch struct {
	Watch Watch
}

func (CreateAccount) CommandType() string  { return "CreateAccount" }
func (CreateEndpoint) CommandType() string { return "CreateEndpoint" }
func (CreateWatch) CommandType() string    { return "CreateWatch" }

func (c CreateAccount) Aggregate() string  { return c.AccountID }
func (c CreateEndpoint) Aggregate() string { return c.EndpointID }
func (c CreateWatch) Aggregate() string    { return c.Watch.ID }

// Codes of rejections.
const (
	CodeAlreadyExists = "ALREADY_EXISTS"
)

// Rejection says why a command was refused. It is an answer, not a failure.
type Rejection struct {
	Code   string
	Detail string
}

// Answer is what a command is answered with: a rejection, or the object as the
// command left it.
type Answer struct {
	Rejection *Rejection
	Account   *Account
	Endpoint  *Endpoint
	Watch     *Watch
}

// Result carries an answer back to whoever waits for it.
type Result struct {
	CommandID string
	BodyHash  []byte
	Answer    Answer
	Replayed  bool // the command was answered before, and this is that answer
}
