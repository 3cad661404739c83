package engine

// RememberedSettled is how many settled deliveries a partition remembers.
const RememberedSettled = rememberedSettled
