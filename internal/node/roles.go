package node

import (
	"fmt"
	"slices"
	"strings"
)

// Role is what a process can do for a deployment.
type Role string

// The roles.
const (
	RoleProjector Role = "projector" // writes the history
	RoleEngine    Role = "engine"    // decides, and makes the attempts
	RoleMailer    Role = "mailer"    // emails holders of disabled endpoints
	RoleFollower  Role = "follower"  // reads ledgers
	RoleAPI       Role = "api"
)

// Roles lists them in the order in which they are started.
func Roles() []Role {
	return []Role{RoleProjector, RoleEngine, RoleMailer, RoleFollower, RoleAPI}
}

// ParseRoles reads names of roles. At least one must be given.
func ParseRoles(names []string) ([]Role, error) {
	var roles []Role
	for _, name := range names {
		role := Role(strings.TrimSpace(name))
		if !slices.Contains(Roles(), role) {
			return nil, fmt.Errorf("%q is no role: the roles are %s", name, RoleNames())
		}
		roles = append(roles, role)
	}
	if len(roles) == 0 {
		return nil, fmt.Errorf("name at least one role of %s", RoleNames())
	}
	slices.SortFunc(roles, func(a, b Role) int {
		return slices.Index(Roles(), a) - slices.Index(Roles(), b)
	})
	return slices.Compact(roles), nil
}

// RoleNames is all roles as one text, as a person writes them.
func RoleNames() string {
	var names []string
	for _, r := range Roles() {
		names = append(names, string(r))
	}
	return strings.Join(names, ",")
}
