import { BODILESS } from '../../../origin/relay/pull-answer.ts'
import type { ResponseWriter } from './response-writer.ts'

/** Pieces that are read before the head is written: a body that ends within them gets a content-length. */
const PIECES_AT_ONCE = 3

/** Writes a web Response. A body that fails cuts the connection, so that the client does not take it for complete. */
export async function writeResponse(response: Response, writer: ResponseWriter): Promise<void> {
  const headers: string[] = []
  response.headers.forEach((value, name) => headers.push(name, value))
  if (response.body === null) {
    writer.head(response.status, headers, BODILESS.has(response.status) ? 'none' : 0)
    return writer.end()
  }
  const reader = response.body.getReader()
  const { pieces, next } = await readyPieces(reader)
  const wholeBytes = next === null ? pieces.reduce((size, { length }) => size + length, 0) : 'unframed'
  writer.head(response.status, headers, response.headers.has('content-length') ? 'none' : wholeBytes)
  writer.write(pieces, false)
  if (next === null) return writer.end()
  writer.flush()
  await pipeBody(reader, next, writer).then(
    () => writer.end(),
    () => writer.destroy(),
  )
}

type Reader = ReadableStreamDefaultReader<Uint8Array>

type PendingRead = ReturnType<Reader['read']>

/** Pieces that need no waiting. `next`: the read that is pending; null: the body has ended. */
async function readyPieces(
  reader: Reader,
): Promise<{ readonly pieces: Uint8Array[]; readonly next: PendingRead | null }> {
  const pieces: Uint8Array[] = []
  while (pieces.length < PIECES_AT_ONCE) {
    const next = reader.read()
    const read = await Promise.race([next, nextTurn()])
    if (read === null) return { pieces, next }
    if (read.done) return { pieces, next: null }
    pieces.push(read.value)
  }
  return { pieces, next: reader.read() }
}

const nextTurn = (): Promise<null> => new Promise((resolve) => setImmediate(() => resolve(null)))

async function pipeBody(reader: Reader, first: PendingRead, writer: ResponseWriter): Promise<void> {
  for (let next = first; ; next = reader.read()) {
    const { done, value } = await next
    if (done) return
    if (writer.gone) return void reader.cancel().catch(() => undefined)
    if (!writer.write([value], false)) await new Promise<void>((resolve) => writer.drained(resolve))
  }
}
