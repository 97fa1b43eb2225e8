/** A head and what follows it, in one call to the system where that is worth a copy. */
import type { Socket } from 'node:net'

/** Up to this size they leave as one piece of memory. */
const JOINED_BYTES = 64 * 1024

/** One piece of memory serves all, as long as sockets take it at once. */
let scratch: Buffer | null = null

/** `head` in Latin-1. false: the socket has not taken all of it; `pieces` are in use until it has. */
export function writeTogether(socket: Socket, head: string, pieces: readonly Uint8Array[]): boolean {
  let size = head.length
  for (const piece of pieces) size += piece.length
  if (size > JOINED_BYTES) return writeApart(socket, head, pieces)
  scratch ??= Buffer.allocUnsafeSlow(JOINED_BYTES)
  let at = scratch.write(head, 0, 'latin1')
  for (const piece of pieces) {
    scratch.set(piece, at)
    at += piece.length
  }
  const flowing = socket.write(scratch.subarray(0, at))
  // Not gone yet: the memory is the socket's.
  if (socket.writableLength > 0) scratch = null
  return flowing
}

function writeApart(socket: Socket, head: string, pieces: readonly Uint8Array[]): boolean {
  socket.cork()
  let flowing = socket.write(head, 'latin1')
  for (const piece of pieces) flowing = socket.write(piece)
  socket.uncork()
  return flowing
}
