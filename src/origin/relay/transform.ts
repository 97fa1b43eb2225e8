/** Answers that are not the ones the client asked for, made into them on the way. */
import type { Usage } from '../../core/contract/contract.ts'
import type { OriginAnswer, RelayOptions } from '../../ports.ts'

/** How an engine's answer becomes the client's. Made for one answer. */
export interface AnswerTransform {
  /** One `data:` event's payload → the payloads to send in its place. `[DONE]` and errors are shown too. */
  event(payload: string): readonly string[]
  /** The whole answer, where it is no stream. */
  whole(answer: Readonly<Record<string, unknown>>): unknown
  /** What the engine counted → what the client is told. */
  usage(counted: Usage): Usage
}

/**
 * Passes an answer like any other, then changes it event by event: the same tap, limits and error event as without a
 * change.
 */
export function relayTransformed(answer: OriginAnswer, reply: RelayOptions, change: AnswerTransform): Response {
  // Without the client's socket the platform gives a stream to read; with it, it would write past us.
  const passed = answer.pass({ ...reply, scope: { ...reply.scope, client: null } })
  if (passed.body === null) return passed
  const body = answer.sse ? changedEvents(passed.body, change) : changedWhole(passed.body, change)
  return new Response(body, { status: passed.status, headers: passed.headers })
}

const encoder = new TextEncoder()

function changedEvents(source: ReadableStream<Uint8Array>, change: AnswerTransform): ReadableStream<Uint8Array> {
  const reader = source.getReader()
  const decoder = new TextDecoder()
  let held = ''
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      for (;;) {
        const { done, value } = await reader.read()
        if (done) {
          if (held !== '') controller.enqueue(encoder.encode(held))
          controller.close()
          return
        }
        held += decoder.decode(value, { stream: true })
        const { whole, rest } = cutRecords(held)
        held = rest
        if (whole.length === 0) continue
        controller.enqueue(encoder.encode(whole.map((record) => changedRecord(record, change)).join('')))
        return
      }
    },
    cancel: (reason) => reader.cancel(reason),
  })
}

/** Records end with an empty line; what follows the last one is not whole yet. */
function cutRecords(text: string): { readonly whole: readonly string[]; readonly rest: string } {
  const records = text.split(/(?<=\r?\n\r?\n)/)
  const last = records.at(-1)!
  return /\r?\n\r?\n$/.test(last) ? { whole: records, rest: '' } : { whole: records.slice(0, -1), rest: last }
}

/** Comments and named events pass as they are. */
function changedRecord(record: string, change: AnswerTransform): string {
  const match = /^data: ?(.*)\r?\n\r?\n$/s.exec(record)
  if (match === null || match[1]!.includes('\n')) return record
  return change
    .event(match[1]!)
    .map((payload) => `data: ${payload}\n\n`)
    .join('')
}

function changedWhole(source: ReadableStream<Uint8Array>, change: AnswerTransform): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    async start(controller) {
      controller.enqueue(encoder.encode(changedText(await new Response(source).text(), change)))
      controller.close()
    },
  })
}

/** What is no JSON is the engine's fault, and shown as it is. */
function changedText(text: string, change: AnswerTransform): string {
  try {
    return JSON.stringify(change.whole(JSON.parse(text) as Readonly<Record<string, unknown>>))
  } catch {
    return text
  }
}
