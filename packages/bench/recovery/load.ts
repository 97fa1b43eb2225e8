/** Open-loop load of the recovery benchmark. */
import { setTimeout as sleep } from 'node:timers/promises'
import { ask, type ClientCall } from './client.ts'

const words = ['amber', 'basil', 'cedar', 'delta', 'ember', 'fjord', 'grain', 'heron', 'ivory', 'jade']
let made = 0

/** Body of a chat with about this many prompt tokens, of which none are cached. */
export function chatBody(promptTokens: number, outputTokens: number, stream = true): string {
  made += 1
  const content = Array.from({ length: promptTokens }, (_, at) => words[(at * made + (at >> 3)) % words.length]).join(
    ' ',
  )
  return JSON.stringify({
    model: 'sim',
    stream,
    max_tokens: outputTokens,
    temperature: 0,
    ignore_eos: true,
    messages: [{ role: 'user', content: `${made} ${content}` }],
  })
}

const PROMPT_TOKENS = 200
/** Output of each stream. */
export const OUTPUT_TOKENS = 40

export interface LoadOptions {
  readonly url: string
  readonly perS: number
  readonly signal: AbortSignal
  readonly key?: string
}

/** Sends short streams at a fixed rate until the signal. Resolves when all of them have ended. */
export async function steadyLoad({ url, perS, signal, key }: LoadOptions): Promise<ClientCall[]> {
  const sent: Promise<ClientCall>[] = []
  const began = performance.now()
  for (let at = 0; !signal.aborted; at++) {
    const waitMs = began + (at * 1000) / perS - performance.now()
    if (waitMs > 0) await sleep(waitMs)
    const body = chatBody(PROMPT_TOKENS, OUTPUT_TOKENS)
    sent.push(ask({ url, id: `client-${at}`, body, ...(key === undefined ? {} : { key }) }))
  }
  return Promise.all(sent)
}
