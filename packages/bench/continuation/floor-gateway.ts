/**
 * The gateway with the least that a relay of web streams can do for `mid_stream: ids`: it removes `token_ids` from each
 * event by a search for bytes. It reads nothing else, keeps nothing, and continues no stream.
 */
import { SocketAnswer } from '../../../src/platform/node/http1/engine-request.ts'
import type { RelayOptions } from '../../../src/ports/relay.ts'

const BEGIN = Buffer.from('"token_ids":[')
const END = ']'.charCodeAt(0)

/** Removes the members in place. Events are not divided: the engine of this measurement writes whole ones. */
function withoutIds(chunk: Uint8Array): Uint8Array {
  const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)
  let kept = 0
  let from = 0
  for (let at = bytes.indexOf(BEGIN); at >= 0; at = bytes.indexOf(BEGIN, from)) {
    // With the comma before it.
    bytes.copyWithin(kept, from, at - 1)
    kept += at - 1 - from
    from = bytes.indexOf(END, at) + 1
  }
  bytes.copyWithin(kept, from)
  return bytes.subarray(0, kept + bytes.length - from)
}

function stripped(reader: ReadableStreamDefaultReader<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream(
    {
      pull: async (controller) => {
        const { done, value } = await reader.read()
        if (done) controller.close()
        else controller.enqueue(withoutIds(value))
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  )
}

const { pass } = SocketAnswer.prototype
SocketAnswer.prototype.pass = function (relay: RelayOptions): Response {
  // Without the client's socket the platform returns a stream.
  const { body, status, headers } = pass.call(this, { ...relay, scope: { ...relay.scope, client: null } })
  return new Response(body === null ? null : stripped(body.getReader()), { status, headers })
}

await import('../../../src/node.ts')
