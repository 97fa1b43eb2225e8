/**
 * Reads request bodies. workerd allocates an object for each chunk, sized for the largest: 300,000 chunks of one byte
 * took 1.8 GB. Reads into the caller's buffer that wait until it is full cost per byte instead.
 */
import type { BodyAllocation } from '../../body-memory.ts'

/** Bodies up to this declared length, bytes, are read at once. */
const ONE_GO_BYTES = 64 * 1024

/** Initial memory, bytes, of a longer body or one of unknown length. */
const FIRST_BYTES = 16 * 1024

/** Bytes that a read waits for; until then workerd keeps some 400 bytes per chunk. */
const MIN_READ_BYTES = 16 * 1024

/** null: the body exceeds the limit. */
export async function collectBody(
  request: Request,
  limitBytes: number,
  memory?: BodyAllocation | null,
): Promise<Uint8Array | null> {
  const { body } = request
  if (body === null) return new Uint8Array(0)
  const length = Number(request.headers.get('content-length') ?? Infinity)
  if (length > ONE_GO_BYTES) return collectPieces(body, { limitBytes, maxBytes: length, memory })
  memory?.grow(length)
  return new Uint8Array(await request.arrayBuffer())
}

interface ReadLimits {
  readonly limitBytes: number
  /** Upper bound of the length. Infinity: unknown. */
  readonly maxBytes: number
  readonly memory: BodyAllocation | null | undefined
}

async function collectPieces(body: ReadableStream<Uint8Array>, limits: ReadLimits): Promise<Uint8Array | null> {
  const reader = readerOf(body)
  let bytes: Uint8Array | null = null
  try {
    bytes = await readBody(reader, limits)
    return bytes
  } finally {
    // Not awaited, because a client that never stops sending must not delay the response.
    if (bytes === null) reader.cancel().catch(() => undefined)
  }
}

function readerOf(body: ReadableStream<Uint8Array>): ReadableStreamBYOBReader {
  try {
    return body.getReader({ mode: 'byob' })
  } catch {
    // Only scripts create such a body, never a client.
    return body.pipeThrough(new IdentityTransformStream()).getReader({ mode: 'byob' })
  }
}

/** null: the body exceeds the limit. The memory doubles, so it is at most twice the received bytes. */
async function readBody(
  reader: ReadableStreamBYOBReader,
  { limitBytes, maxBytes, memory }: ReadLimits,
): Promise<Uint8Array | null> {
  // One byte more than allowed shows that the body is too long.
  const readLimitBytes = Math.min(maxBytes, limitBytes + 1)
  let buffer = new Uint8Array(0)
  let total = 0
  while (total <= limitBytes && total < readLimitBytes) {
    if (total === buffer.length) {
      const size = Math.min(readLimitBytes, Math.max(FIRST_BYTES, 2 * total))
      buffer = grownTo(buffer, size)
    }
    const minBytes = Math.min(MIN_READ_BYTES, buffer.length - total)
    const { value } = await reader.readAtLeast(minBytes, buffer.subarray(total))
    const bytes: number = value?.byteLength ?? 0
    // A read transfers the buffer and returns it with the bytes.
    if (value !== undefined) buffer = new Uint8Array(value.buffer as ArrayBuffer)
    memory?.grow(bytes)
    total += bytes
    if (bytes < minBytes) break
  }
  return total > limitBytes ? null : buffer.subarray(0, total)
}

function grownTo(buffer: Uint8Array, size: number): Uint8Array<ArrayBuffer> {
  const grown = new Uint8Array(size)
  grown.set(buffer)
  return grown
}
