import type { LimitsConfig } from '../../config.ts'
import { Failure } from '../../failure.ts'
import type { Ports } from '../../ports.ts'
import { hasBackslashKey } from '../../core/backslash-keys.ts'
import type { BodyAllocation } from '../../body-memory.ts'
import { exceedsJsonComplexity } from '../../core/json-complexity.ts'

/** A JSON document: the original bytes to forward, and the parsed value. */
export interface JsonBody {
  readonly bytes: Uint8Array
  /** Long texts of a prompt may be `Utf8Text`. For a form: its short texts. */
  readonly json: Readonly<Record<string, unknown>>
  /** For a form: byte range of its model. */
  readonly model?: { readonly from: number; readonly to: number } | undefined
}

// Fatal: an engine that decodes invalid bytes differently would see another document than the one checked.
export const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false })

/**
 * A body that the platform collects. null: longer than the limit. Rejects if the client disconnects, or with a
 * Failure.
 */
interface CollectedBody {
  collect(limitBytes: number, memory?: BodyAllocation | null): Promise<Uint8Array | null> | Uint8Array | null
  /** Frees the memory of the collected body, which is empty from then on. */
  giveBack(): void
}

/** Source of a body; a web `Request` is one. */
export type BodySource = { readonly headers: Pick<Headers, 'get'> } & (
  | CollectedBody
  | Pick<Request, 'body' | 'arrayBuffer'>
)

/** Without `maxJsonCost` only the size is bounded. */
type BodyLimits = Pick<LimitsConfig, 'bodyBytes'> & Partial<Pick<LimitsConfig, 'maxJsonCost'>>

interface ReadOptions {
  /** As in `Ports`. */
  readonly parseLong?: Ports['parseLong'] | undefined
  /** Memory account of the body. Absent: not counted. */
  readonly memory?: BodyAllocation | null
}

/**
 * Reads and parses a JSON object. The result is no promise if the body is there and short: each promise costs a request
 * as much as a short step. Throws or rejects with `unsupported_media`, `body_too_large`, `buffers_full`, `bad_json` or
 * `bad_body`.
 */
export function readJson(
  request: BodySource,
  { bodyBytes, maxJsonCost = Infinity }: BodyLimits,
  { parseLong, memory }: ReadOptions = {},
): JsonBody | Promise<JsonBody> {
  refuseEncoding(request.headers.get('content-encoding'))
  const read = readBounded(request, bodyBytes, memory)
  return read instanceof Promise
    ? read.then((bytes) => parseBody(bytes, maxJsonCost, parseLong), throwUnreadable)
    : parseBody(read, maxJsonCost, parseLong)
}

function parseBody(
  bytes: Uint8Array,
  maxJsonCost: number,
  parseLong: ReadOptions['parseLong'],
): JsonBody | Promise<JsonBody> {
  if (bytes.length === 0) throw new Failure('bad_json', 'The request has no body. Send a JSON object.')
  // A document of this size without its long texts is short enough to skip the cost check.
  if (bytes.length > maxJsonCost) checkComplexity(bytes, maxJsonCost)
  const parsing = parseLong?.(bytes) ?? null
  return parsing instanceof Promise
    ? parsing.then((long) => bodyOf(bytes, long, maxJsonCost))
    : bodyOf(bytes, parsing, maxJsonCost)
}

/** @param long the document, if `parseLong` has parsed it */
function bodyOf(bytes: Uint8Array, long: unknown, maxJsonCost: number): JsonBody {
  if (long === null && bytes.length <= maxJsonCost) checkComplexity(bytes, maxJsonCost)
  const json = asObject(long ?? parse(bytes))
  const { vllm_xargs: xargs, sampling_params: sampling } = json
  if (hasBackslashKey(json) || hasBackslashKey(xargs) || hasBackslashKey(sampling)) {
    throw new Failure('bad_body', 'A field name must not contain a backslash.')
  }
  return { bytes, json }
}

function asObject(json: unknown): Record<string, unknown> {
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json as Record<string, unknown>
  const kind = Array.isArray(json) ? 'an array' : json === null ? 'null' : `a ${typeof json}`
  throw new Failure('bad_body', `The request body must be a JSON object, not ${kind}.`)
}

/** Reads a short JSON object. A request without a body has an empty one. */
export async function readShortJson(request: BodySource, limitBytes: number): Promise<Record<string, unknown>> {
  refuseEncoding(request.headers.get('content-encoding'))
  const bytes = await Promise.resolve(readBounded(request, limitBytes)).catch(throwUnreadable)
  return bytes.length === 0 ? {} : asObject(parse(bytes))
}

function checkComplexity(bytes: Uint8Array, limit: number): void {
  if (exceedsJsonComplexity(bytes, limit))
    throw tooLarge(`has a parse cost above ${limit} (names, objects, lists, strings, numbers)`, 'limits.max_json_cost')
}

export function refuseEncoding(encoding: string | null): void {
  if (encoding === null || encoding === '' || encoding.trim().toLowerCase() === 'identity') return
  const shown = encoding.slice(0, 40)
  throw new Failure(
    'unsupported_media',
    `content-encoding '${shown}' is not supported for requests. Send the body uncompressed.`,
    {
      headers: { 'accept-encoding': 'identity' },
    },
  )
}

/** The client disconnected: the error is only logged. */
export function throwUnreadable(error: unknown): never {
  if (error instanceof Failure) throw error
  throw new Failure('client_gone', 'The request body ended before it was complete.', { cause: error })
}

/**
 * Checks a declared length before reading; HTTP framing enforces it. Otherwise counts while reading. Most bodies are
 * there already, and awaiting one costs more than reading it.
 */
export function readBounded(
  request: BodySource,
  limitBytes: number,
  memory?: BodyAllocation | null,
): Uint8Array | Promise<Uint8Array> {
  const declared = request.headers.get('content-length')
  const length = declared !== null && /^\d+$/.test(declared) ? Number(declared) : null
  if (length !== null && length > limitBytes) throw tooLong(limitBytes)
  if ('collect' in request) {
    const bytes = request.collect(limitBytes, memory)
    return bytes instanceof Promise ? bytes.then((all) => within(limitBytes, all)) : within(limitBytes, bytes)
  }
  if (length !== null) {
    memory?.grow(length)
    return request.arrayBuffer().then((all) => new Uint8Array(all))
  }
  if (request.body === null) return new Uint8Array(0)
  return collect(request.body, limitBytes, memory)
}

/** @param bytes null: longer than the limit */
function within(limitBytes: number, bytes: Uint8Array | null): Uint8Array {
  if (bytes === null) throw tooLong(limitBytes)
  return bytes
}

/** Collects small pieces into one buffer; otherwise each would be a separate object. */
async function collect(
  body: ReadableStream<Uint8Array>,
  limitBytes: number,
  memory?: BodyAllocation | null,
): Promise<Uint8Array> {
  const reader = body.getReader()
  let buffer = new Uint8Array(0)
  let total = 0
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return buffer.subarray(0, total)
      const { byteLength } = value
      if (total + byteLength > limitBytes) throw tooLong(limitBytes)
      memory?.grow(byteLength)
      if (total + byteLength > buffer.length) {
        const grown = new Uint8Array(Math.max(total + byteLength, 2 * buffer.length))
        grown.set(buffer.subarray(0, total))
        buffer = grown
      }
      buffer.set(value, total)
      total += byteLength
    }
  } catch (error) {
    // Not awaited: a client that never stops sending must not delay the response.
    reader.cancel().catch(() => undefined)
    throw error
  }
}

const tooLong = (limitBytes: number): Failure => tooLarge(`is larger than ${limitBytes} bytes`, 'limits.body_bytes')

const tooLarge = (how: string, limit: string): Failure =>
  new Failure('body_too_large', `The request body ${how}. Send less, or raise ${limit}.`)

function parse(bytes: Uint8Array): unknown {
  let text: string
  try {
    text = decoder.decode(bytes)
  } catch {
    throw new Failure('bad_json', 'The request body is not valid UTF-8. Send JSON encoded as UTF-8.')
  }
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Failure('bad_json', `The request body is not valid JSON${positionOf(error, text)}.`)
  }
}

/** Describes the position of an error without the text, because prompts must not appear in errors and logs. */
function positionOf(error: unknown, text: string): string {
  const position = error instanceof SyntaxError ? /position (\d+)/.exec(error.message)?.[1] : undefined
  if (position !== undefined) return ` at character ${position}`
  return text.trim() === '' ? ': it is empty' : ': it ends too early or has invalid syntax'
}
