//go:build !amd64 || purego

package sha256x2

const available = false

func pair(*state, *state, *byte, *byte, int) {
	panic("sha256x2: not for this processor")
}
