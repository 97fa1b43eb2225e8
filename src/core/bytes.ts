/** Concatenates pieces of together `size` bytes. Returns a single piece without copying it. */
export function concatBytes(pieces: readonly Uint8Array[], size = sizeOf(pieces)): Uint8Array {
  if (pieces.length === 1) return pieces[0]!
  const whole = new Uint8Array(size)
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}

/** Bytes of all pieces together. */
export const sizeOf = (pieces: readonly Uint8Array[]): number => pieces.reduce((size, { length }) => size + length, 0)
