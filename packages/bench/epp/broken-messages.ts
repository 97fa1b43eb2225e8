/** A broken proxy beside a working one: malformed, out-of-order and oversized messages, and streams that are reset. */
import { connect } from 'node:http2'

const PATH = '/envoy.service.ext_proc.v3.ExternalProcessor/Process'

/** Messages as hexadecimal frames; each ends its own call. */
const BROKEN: readonly string[] = [
  // Bytes that are no message.
  '0000000003ffffff',
  // A body before any headers.
  '000000000622040a027b7d',
  // Compressed.
  '010000000100',
  // Four GiB.
  '00ffffffff',
  // A response before its request.
  '00000000021a00',
  // A message without a request.
  '00000000025000',
]

/** Sends broken calls until `signal` is aborted. Resolves with their number, once all have ended. */
export async function sendBroken(port: number, signal: AbortSignal): Promise<number> {
  const session = connect(`http://127.0.0.1:${port}`)
  session.on('error', () => undefined)
  let calls = 0
  while (!signal.aborted && !session.destroyed) {
    const batch = BROKEN.map((hex, at) =>
      brokenCall(session.request({ ':method': 'POST', ':path': PATH, ...TYPE }), hex, at),
    )
    calls += batch.length
    await Promise.all(batch)
  }
  session.destroy()
  return calls
}

const TYPE = { 'content-type': 'application/grpc' }

function brokenCall(stream: ReturnType<ReturnType<typeof connect>['request']>, hex: string, at: number): Promise<void> {
  return new Promise((resolve) => {
    stream.on('error', () => undefined)
    stream.on('close', () => resolve())
    stream.resume()
    stream.write(Buffer.from(hex, 'hex'))
    // The fourth is incomplete: the picker must not wait for the rest.
    if (at % 2 === 0) stream.end()
  })
}
