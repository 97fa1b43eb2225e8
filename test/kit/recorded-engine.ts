/** A fake engine that sends recorded responses: x-request-id names the exchange, or a test gives the text. */
import { setImmediate as turn } from 'node:timers/promises'
import { bodyText, type Exchange } from '../../packages/bench/conformance/vector.ts'
import type { FakeAnswer } from './fake-answer.ts'
import { FakeEngine } from './fake-engine.ts'
import { sseAnswer } from './sse.ts'

export interface RecordedEngine {
  readonly url: string
  /** Received bodies by request id. */
  readonly got: ReadonlyMap<string, string>
  /** Sends this stream in the next responses, cut at these offsets. */
  stream(text: Buffer, offsets: readonly number[]): void
  close(): Promise<void>
}

export async function recordedEngine(exchanges: readonly Exchange[]): Promise<RecordedEngine> {
  const byName = new Map(exchanges.map((exchange) => [exchange.name, exchange]))
  const got = new Map<string, string>()
  let script: { text: Buffer; offsets: readonly number[] } | null = null
  const engine = await FakeEngine.open({
    'GET /health': { body: '' },
    'GET /metrics': { body: '' },
    '*': ({ headers, text }) => {
      const name = String(headers['x-request-id'])
      got.set(name, text)
      if (script !== null) return play(script)
      const exchange = byName.get(name)
      return exchange === undefined ? { status: 500, body: `no exchange is named ${name}` } : replay(exchange)
    },
  })
  return {
    url: engine.url,
    got,
    stream: (text, offsets) => (script = { text, offsets }),
    close: () => engine.close(),
  }
}

function replay({ response }: Exchange): FakeAnswer {
  const { status, headers } = response
  const body = bodyText(response)
  const isStream = headers['content-type']?.startsWith('text/event-stream') === true
  return { status, headers, ...(isStream ? { pieces: [body] } : { body }) }
}

/** One write for each part, a turn of the event loop apart. */
function play({ text, offsets }: { text: Buffer; offsets: readonly number[] }): FakeAnswer {
  async function* parts(): AsyncGenerator<Uint8Array> {
    let from = 0
    for (const to of [...offsets, text.length]) {
      yield text.subarray(from, to)
      from = to
      await turn()
    }
  }
  return sseAnswer(parts())
}
