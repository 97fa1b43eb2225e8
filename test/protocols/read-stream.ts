/** Streams for tests of protocols: text in, reader and kinds of events out. */
import { readFileSync } from 'node:fs'
import { StreamReader } from '../../src/protocols/stream/reader.ts'
import { protocolOf } from '../../src/protocols/protocols.ts'

export const encode = (text: string): Uint8Array => new TextEncoder().encode(text)

export const grammarOf = (path: string) => protocolOf(path)!.stream!

export const data = (json: unknown): string => `data: ${typeof json === 'string' ? json : JSON.stringify(json)}\n\n`

/** A named event whose name is its type. */
export const named = (json: { readonly type: string }): string => `event: ${json.type}\n${data(json)}`

export function readerOf(path: string, text: string): StreamReader {
  const reader = new StreamReader(grammarOf(path))
  reader.take(encode(text))
  return reader
}

/** What a reader knows after a stream. */
export const stateOf = (reader: StreamReader) => ({
  outcome: reader.outcome(),
  hasBegun: reader.hasBegun,
  events: reader.events,
  outputs: reader.outputs,
  usage: reader.usage,
  error: reader.error,
})

/** Kinds of the events of a stream whose events end in a blank line. */
export function kindsOf(path: string, text: string): string[] {
  const reader = new StreamReader(grammarOf(path))
  return text
    .split(/(?<=\r?\n\r?\n)/)
    .filter((event) => event !== '')
    .map((event) => {
      const bytes = encode(event)
      return reader.event(bytes, 0, bytes.length)
    })
}

export const vector = (name: string): string =>
  readFileSync(new URL(`../vectors/sse/${name}.sse`, import.meta.url), 'utf8')

/** A chat chunk as vLLM writes it. */
export const chatChunk = (delta: object, finish: string | null = null, index = 0): string =>
  data({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index, delta, logprobs: null, finish_reason: finish, token_ids: null }],
  })

export const ROLE = chatChunk({ role: 'assistant', content: '' })
export const DONE = data('[DONE]')
