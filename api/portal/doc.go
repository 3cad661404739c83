// Package portal makes and reads the credentials of portal links: what lets a browser use one
// account, or one endpoint of it, with some of a key's permissions, until a time. It hides their
// form; nothing of them is stored.
//
// There are two, each under a MAC of its own, so that neither is taken for the other:
//
//   - The link is what a merchant hands to a browser. It opens the portal for OpenFor, as often as
//     it is followed.
//   - The credential is what a link is exchanged for, and what the API takes in place of a key. It
//     ends when the link's maker wanted.
//
// Form: "whp_", then base64url of the MAC (HMAC-SHA-256, 32 bytes) and a grant in JSON.
//
// Invariants:
//
//   - A text that another key made, or that was changed, or that has ended, is no grant.
//   - A grant names its key. Whether the key is still there, and what it may do, is for the API to
//     ask in every request: it ends no later than its key, and never allows more.
//
// File map: portal.go (everything).
package portal
