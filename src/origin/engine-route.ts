/** Reads a management route of an engine over the same connections as requests, with the same keys and bindings. */
import { concatBytes } from '../core/bytes.ts'
import type { OriginTarget } from '../ports/engine-target.ts'
import { type Origin, OriginError } from '../ports/origin.ts'
import { headerOf } from './headers.ts'
import { ownRequest } from './own-request.ts'

/**
 * Time limits of a probe, ms. A healthy engine answers in milliseconds under full load too, because its HTTP server is
 * a separate process.
 */
const CONNECT_MS = 2_000
const ANSWER_MS = 5_000

/** Limit of an answer, bytes. */
const ROUTE_BYTES = 1024 * 1024

export interface RouteAnswer {
  readonly status: number
  readonly text: string
  /** `server` header. */
  readonly server: string | null
}

interface RouteOptions {
  readonly limitMs?: number
  readonly limitBytes?: number
  /** JSON to post. Absent: the route is read with GET. */
  readonly posted?: object
}

/** Rejects with an OriginError. */
export async function readRoute(
  origin: Origin,
  target: OriginTarget,
  path: string,
  { limitMs = ANSWER_MS, limitBytes = ROUTE_BYTES, posted }: RouteOptions = {},
): Promise<RouteAnswer> {
  const json = posted === undefined ? undefined : JSON.stringify(posted)
  const answer = await origin.send(ownRequest(target, path, { json, connectMs: CONNECT_MS, limitMs }))
  const bytes = await plainBytes(
    await answer.read(limitBytes),
    headerOf(answer.headers, 'content-encoding'),
    limitBytes,
  )
  return { status: answer.status, text: new TextDecoder().decode(bytes), server: headerOf(answer.headers, 'server') }
}

/** Encodings that both runtimes decode, by the names in headers. */
const ENCODINGS: Readonly<Record<string, 'gzip' | 'deflate'>> = { gzip: 'gzip', 'x-gzip': 'gzip', deflate: 'deflate' }

/**
 * Bytes without their encoding: proxies compress although the request accepts `identity` only. Workers have decoded
 * them. Rejects with an OriginError if they are no such encoding, or too long.
 */
async function plainBytes(bytes: Uint8Array, encoding: string | null, limitBytes: number): Promise<Uint8Array> {
  const format = ENCODINGS[encoding ?? '']
  // gzip begins with these bytes. Without them the platform has decoded the body.
  if (format === undefined || (format === 'gzip' && bytes[0] !== 0x1f)) return bytes
  const body = new Blob([bytes as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new DecompressionStream(format))
  const pieces: Uint8Array[] = []
  let length = 0
  try {
    for await (const piece of body) {
      length += piece.length
      if (length > limitBytes) break
      pieces.push(piece)
    }
  } catch (error) {
    throw new OriginError('malformed', `the body is not ${encoding}`, { cause: error })
  }
  if (length > limitBytes) throw new OriginError('malformed', `the decoded body is longer than ${limitBytes} bytes`)
  return concatBytes(pieces, length)
}
