/** Gap in the client's stream when its engine fails, against the TTFT that was predicted for the continuation. */
import { parseConfig } from '../../../src/config/parse.ts'
import { startGateway } from '../../../src/platform/node/start-gateway.ts'
import { startFleet } from '../../simulator/src/node/fleet-host.ts'
import { median } from '../median.ts'
import { continuationDocument, MODEL, randomOf } from './cases.ts'

/** Requests without failures before, from which the gateway learns TTFTs. */
const WARM_UP = 40
const PROMPT_WORDS = 600
const OUTPUT_TOKENS = 48

export interface Gaps {
  readonly streams: number
  readonly gap_ms_p50: number
  readonly predicted_ms_p50: number
  readonly gap_ratio_p50: number
}

const silent = (): void => {}

export async function measureGaps(streams: number): Promise<Gaps> {
  const fleet = await startFleet({ model: MODEL, profile: 'demo', engines: [{ id: 'e0' }, { id: 'e1' }] })
  let predictedMs: number | null = null
  const info = (event: string, fields?: Readonly<Record<string, unknown>>): void => {
    if (event === 'stream_continued') predictedMs = fields!['predicted_ttft_ms'] as number | null
  }
  const config = parseConfig(
    { ...continuationDocument(fleet.urls, { mid_stream: 'ids' }), listen: '127.0.0.1:0' },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
  const gateway = await startGateway(config, { debug: silent, info, warn: silent, error: silent })
  const random = randomOf(7)
  const pairs: { gapMs: number; predictedMs: number }[] = []
  try {
    for (let at = 0; at < WARM_UP; at++) await longestGapMs(gateway.url, bodyOf(at), silent)
    for (let at = 0; at < streams; at++) {
      predictedMs = null
      const after = 4 + Math.floor(random() * (OUTPUT_TOKENS - 8))
      for (const engine of fleet.engines) engine.setFault({ kind: 'reset', after, count: 1 })
      const gapMs = await longestGapMs(gateway.url, bodyOf(WARM_UP + at), (id) => {
        for (const [index, engine] of fleet.engines.entries()) if (`e${index}` !== id) engine.setFault(null)
      })
      if (predictedMs !== null) pairs.push({ gapMs, predictedMs })
    }
  } finally {
    await gateway.stop(AbortSignal.timeout(1_000))
    await fleet.close()
  }
  return {
    streams: pairs.length,
    gap_ms_p50: round(median(pairs.map((pair) => pair.gapMs))),
    predicted_ms_p50: round(median(pairs.map((pair) => pair.predictedMs))),
    gap_ratio_p50: Math.round(median(pairs.map((pair) => pair.gapMs / pair.predictedMs)) * 100) / 100,
  }
}

const round = (ms: number): number => Math.round(ms * 10) / 10

/** Prompts have nothing in common, so no cache has any of them. */
const bodyOf = (at: number): string =>
  JSON.stringify({
    model: MODEL,
    prompt: Array.from({ length: PROMPT_WORDS }, (_, word) => `${at}w${word}`).join(' '),
    max_tokens: OUTPUT_TOKENS,
    stream: true,
  })

/** Longest time between two reads of a stream, after its first bytes. */
async function longestGapMs(url: string, body: string, begun: (engine: string | null) => void): Promise<number> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${url}/v1/completions`, { method: 'POST', headers, body })
  begun(response.headers.get('x-firstlight-engine'))
  let last: number | null = null
  let longest = 0
  for await (const _ of response.body!) {
    const now = performance.now()
    if (last !== null) longest = Math.max(longest, now - last)
    last = now
  }
  return longest
}
