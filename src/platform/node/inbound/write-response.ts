/** Writes a web Response to a client: refusals, and streams that something of ours is added to. */
import { BODILESS } from '../../../origin/pulled-answer.ts'
import type { ClientLine } from './client-line.ts'

/** Pieces that are waited for, without waiting, before the head says how long the body is. */
const PIECES_AT_ONCE = 3

/** A body that breaks ends the connection: what was begun must not look complete. */
export async function writeResponse(response: Response, line: ClientLine): Promise<void> {
  const headers: string[] = []
  response.headers.forEach((value, name) => headers.push(name, value))
  if (response.body === null) {
    if (!BODILESS.has(response.status)) headers.push('content-length', '0')
    line.head(response.status, headers, true)
    return line.end()
  }
  const reader = response.body.getReader()
  const { pieces, next } = await atOnce(reader)
  if (next === null && !response.headers.has('content-length')) headers.push('content-length', String(pieces.reduce((size, { length }) => size + length, 0)))
  line.head(response.status, headers, false)
  for (const piece of pieces) line.write(piece, false)
  if (next === null) return line.end()
  line.flush()
  await pump(reader, next, line).then(
    () => line.end(),
    () => line.destroy(),
  )
}

type Reader = ReadableStreamDefaultReader<Uint8Array>
type Reading = ReturnType<Reader['read']>

/** What is there already. `next`: the read that still waits; null: that was all. */
async function atOnce(reader: Reader): Promise<{ readonly pieces: Uint8Array[]; readonly next: Reading | null }> {
  const pieces: Uint8Array[] = []
  while (pieces.length < PIECES_AT_ONCE) {
    const next = reader.read()
    const read = await Promise.race([next, turn()])
    if (read === null) return { pieces, next }
    if (read.done) return { pieces, next: null }
    pieces.push(read.value)
  }
  return { pieces, next: reader.read() }
}

const turn = (): Promise<null> => new Promise((resolve) => setImmediate(() => resolve(null)))

async function pump(reader: Reader, first: Reading, line: ClientLine): Promise<void> {
  for (let next = first; ; next = reader.read()) {
    const { done, value } = await next
    if (done) return
    if (line.gone) return void reader.cancel().catch(() => undefined)
    if (!line.write(value, false)) await new Promise<void>((resolve) => line.drained(resolve))
  }
}
