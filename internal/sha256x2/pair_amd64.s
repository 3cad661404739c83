//go:build !purego

#include "textflag.h"

// Registers: of the first message the state in X1 (f, e, b, a) and X2 (h, g, d, c), and 16 words
// of its schedule in X3 to X6; of the second X7, X8, and X9 to X12. The SHA unit takes words and
// constants in X0.

// LOAD reads four words of a block.
#define LOAD(from, words) \
	MOVOU from, words   \
	PSHUFB X14, words

// ROUNDS does four rounds.
#define ROUNDS(at, words, feba, hgdc) \
	MOVOU at(AX), X0            \
	PADDD words, X0             \
	SHA256RNDS2 X0, feba, hgdc  \
	PSHUFD $0x0e, X0, X0        \
	SHA256RNDS2 X0, hgdc, feba

// NEXT replaces the oldest four of 16 words of the schedule, w0, by the next four.
#define NEXT(w0, w1, w2, w3) \
	SHA256MSG1 w1, w0  \
	MOVO w3, X13       \
	PALIGNR $4, w2, X13 \
	PADDD X13, w0      \
	SHA256MSG2 w3, w0

// SCHEDULED does four rounds of both, and gets on with their schedules.
#define SCHEDULED(at, a0, a1, a2, a3, b0, b1, b2, b3) \
	ROUNDS(at, a0, X1, X2) \
	ROUNDS(at, b0, X7, X8) \
	NEXT(a0, a1, a2, a3)   \
	NEXT(b0, b1, b2, b3)

// ADD adds what the state was before a block.
#define ADD(before, register) \
	MOVOU before, X13       \
	PADDD X13, register     \
	MOVOU register, before

// func pair(a, b *state, p, q *byte, blocks int)
TEXT ·pair(SB), NOSPLIT, $0-40
	MOVQ a+0(FP), DI
	MOVQ b+8(FP), R8
	MOVQ p+16(FP), SI
	MOVQ q+24(FP), DX
	MOVQ blocks+32(FP), CX
	LEAQ ·constants(SB), AX
	MOVOU ·swapped(SB), X14
	MOVOU (DI), X1
	MOVOU 16(DI), X2
	MOVOU (R8), X7
	MOVOU 16(R8), X8

block:
	LOAD((SI), X3)
	LOAD(16(SI), X4)
	LOAD(32(SI), X5)
	LOAD(48(SI), X6)
	LOAD((DX), X9)
	LOAD(16(DX), X10)
	LOAD(32(DX), X11)
	LOAD(48(DX), X12)
	SCHEDULED(0, X3, X4, X5, X6, X9, X10, X11, X12)
	SCHEDULED(16, X4, X5, X6, X3, X10, X11, X12, X9)
	SCHEDULED(32, X5, X6, X3, X4, X11, X12, X9, X10)
	SCHEDULED(48, X6, X3, X4, X5, X12, X9, X10, X11)
	SCHEDULED(64, X3, X4, X5, X6, X9, X10, X11, X12)
	SCHEDULED(80, X4, X5, X6, X3, X10, X11, X12, X9)
	SCHEDULED(96, X5, X6, X3, X4, X11, X12, X9, X10)
	SCHEDULED(112, X6, X3, X4, X5, X12, X9, X10, X11)
	SCHEDULED(128, X3, X4, X5, X6, X9, X10, X11, X12)
	SCHEDULED(144, X4, X5, X6, X3, X10, X11, X12, X9)
	SCHEDULED(160, X5, X6, X3, X4, X11, X12, X9, X10)
	SCHEDULED(176, X6, X3, X4, X5, X12, X9, X10, X11)
	ROUNDS(192, X3, X1, X2)
	ROUNDS(192, X9, X7, X8)
	ROUNDS(208, X4, X1, X2)
	ROUNDS(208, X10, X7, X8)
	ROUNDS(224, X5, X1, X2)
	ROUNDS(224, X11, X7, X8)
	ROUNDS(240, X6, X1, X2)
	ROUNDS(240, X12, X7, X8)
	ADD((DI), X1)
	ADD(16(DI), X2)
	ADD((R8), X7)
	ADD(16(R8), X8)
	ADDQ $64, SI
	ADDQ $64, DX
	DECQ CX
	JNZ block
	RET
