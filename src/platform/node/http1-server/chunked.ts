/** Chunk framing of our own (RFC 9112, 7.1). */

export const CRLF = Buffer.from('\r\n')
export const LAST_CHUNK = Buffer.from('0\r\n\r\n')

/** Pieces in one chunk. */
export function chunkOf(pieces: readonly Uint8Array[]): readonly Uint8Array[] {
  let size = 0
  for (const piece of pieces) size += piece.length
  return [Buffer.from(`${size.toString(16)}\r\n`, 'latin1'), ...pieces, CRLF]
}
