/**
 * Reads request bodies. workerd gives each chunk as an object of its own, in memory for the largest: 300,000 chunks of
 * one
 * byte took 1.8 GB. Reads into a buffer of the caller's that wait until it is full cost by the byte.
 */
import type { HeldBytes } from '../../api/body-memory.ts'

/** Bodies of a declared length up to this are read in one go. */
const ONE_GO_BYTES = 64 * 1024
/** Memory taken first for a longer body, or one of unknown length. */
const FIRST_BYTES = 16 * 1024

/** What a read waits for: workerd keeps some 400 bytes for each chunk until then. */
const LEAST_BYTES = 16 * 1024

type Collect = (limitBytes: number, memory?: HeldBytes | null) => Promise<Uint8Array | null>

/** The request, which collects its body by itself from now on. */
export function collecting(request: Request): Request {
  const collect: Collect = async (limitBytes, memory) => {
    const { body } = request
    if (body === null) return new Uint8Array(0)
    const length = Number(request.headers.get('content-length') ?? Infinity)
    if (length > ONE_GO_BYTES) return collected(body, { limitBytes, maxBytes: length, memory })
    memory?.grow(length)
    return new Uint8Array(await request.arrayBuffer())
  }
  return Object.defineProperties(request, { collect: { value: collect }, giveBack: { value: () => {} } })
}

interface Reading {
  readonly limitBytes: number
  /** The body is no longer; infinite where that is not known. */
  readonly maxBytes: number
  readonly memory: HeldBytes | null | undefined
}

async function collected(body: ReadableStream<Uint8Array>, reading: Reading): Promise<Uint8Array | null> {
  const reader = readerOf(body)
  let bytes: Uint8Array | null = null
  try {
    bytes = await read(reader, reading)
    return bytes
  } finally {
    // Not awaited: a sender that never stops must not hold the answer back.
    if (bytes === null) reader.cancel().catch(() => undefined)
  }
}

function readerOf(body: ReadableStream<Uint8Array>): ReadableStreamBYOBReader {
  try {
    return body.getReader({ mode: 'byob' })
  } catch {
    // Made by a script, which a client's body never is.
    return body.pipeThrough(new IdentityTransformStream()).getReader({ mode: 'byob' })
  }
}

/** null: it is longer than the limit. Memory doubles, so it is at most twice the bytes that came. */
async function read(
  reader: ReadableStreamBYOBReader,
  { limitBytes, maxBytes, memory }: Reading,
): Promise<Uint8Array | null> {
  // One byte more than allowed tells that there are more.
  const mostBytes = Math.min(maxBytes, limitBytes + 1)
  let buffer = new Uint8Array(0)
  let total = 0
  while (total <= limitBytes && total < mostBytes) {
    if (total === buffer.length) {
      const size = Math.min(mostBytes, Math.max(FIRST_BYTES, 2 * total))
      buffer = grownTo(buffer, size)
    }
    const least = Math.min(LEAST_BYTES, buffer.length - total)
    const { value } = await reader.readAtLeast(least, buffer.subarray(total))
    const bytes: number = value?.byteLength ?? 0
    // The memory goes along with a read and comes back with its bytes.
    if (value !== undefined) buffer = new Uint8Array(value.buffer as ArrayBuffer)
    memory?.grow(bytes)
    total += bytes
    if (bytes < least) break
  }
  return total > limitBytes ? null : buffer.subarray(0, total)
}

function grownTo(buffer: Uint8Array, size: number): Uint8Array<ArrayBuffer> {
  const grown = new Uint8Array(size)
  grown.set(buffer)
  return grown
}
