package engine

const RememberedSettled = rememberedSettled
