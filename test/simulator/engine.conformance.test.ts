import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { engineKey } from '../../packages/bench/conformance/engine.ts'
import { send } from '../../packages/bench/conformance/http.ts'
import { differences } from '../../packages/bench/conformance/likeness.ts'
import { metricFamilies, type MetricFamily } from '../../packages/bench/conformance/metric-families.ts'
import { record } from '../../packages/bench/conformance/recorder.ts'
import type { VectorFile } from '../../packages/bench/conformance/vector.ts'
import { startFleet, type RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'

const read = <T>(file: string): T =>
  JSON.parse(readFileSync(new URL(`../vectors/${file}`, import.meta.url), 'utf8')) as T

let fleet: RunningFleet
const url = () => fleet.urls[0]!

beforeAll(async () => {
  // Flags of the recorded engine.
  const limits = { blockTokens: 32, cacheBlocks: 2000, maxNumSeqs: 4, maxModelLen: 4096 }
  fleet = await startFleet({
    engines: 1,
    model: 'tiny',
    profile: 'instant',
    apiKey: engineKey,
    limits,
    maxNumQueuedReqs: 8,
    pooling: false,
    multimodal: false,
    vocabularySize: 2048,
    devMode: true,
  })
})
afterAll(() => fleet.close())

/** Where the simulated engine may differ from the recording, and why. */
const allowed: Readonly<Record<string, { readonly why: string; readonly fields: RegExp }>> = {
  'chat-stop': {
    why: 'how many tokens come before the stop string is the model’s business',
    fields: /completion_tokens|mean_itl_ms/,
  },
  'chat-tools': {
    why: 'the made-up weights never end a call; the simulated engine does',
    fields: /finish_reason|completion_tokens/,
  },
  'chat-tools-stream': { why: 'as chat-tools', fields: /finish_reason|completion_tokens/ },
  ...Object.fromEntries(
    ['speech-verbose', 'speech-windows-verbose', 'translation-verbose'].map((name) => [
      name,
      {
        why: 'where a segment ends is the model’s business',
        fields:
          /^\.duration|^\.segments has|^\.segments\[\d+\]\.(avg_logprob|compression_ratio|start|end|seek|tokens) /,
      },
    ]),
  ),
}

/** Simulated engines publish no KV events, decode no audio and accept any language. */
const absent = new Set(['kv-event-sources', 'speech-no-sound', 'speech-language-unknown'])

async function unlike(file: string, name: string, tolerance: { made: boolean; counted: boolean }): Promise<string[]> {
  const { request, response } = read<VectorFile>(file).exchanges.find((exchange) => exchange.name === name)!
  const simulated = await record(url(), name, request)
  return differences(response, simulated.response, tolerance).filter(
    (difference) => !allowed[name]?.fields.test(difference),
  )
}

describe.each(['openai.json', 'errors.json', 'uploads.json'])(
  'the simulated engine returns the recorded responses: %s',
  (file) => {
    const names = read<VectorFile>(file)
      .exchanges.map(({ name }) => name)
      .filter((name) => !absent.has(name))
    it.each(names)('%s', async (name) => {
      expect(await unlike(file, name, { made: true, counted: true })).toEqual([])
    })
  },
)

describe('the simulated engine, compared with vLLM', () => {
  it('the simulated engine reports the same cached tokens for the same prompts in the same order', async () => {
    const seen: Record<string, string[]> = {}
    for (const { name } of read<VectorFile>('cache.json').exchanges)
      seen[name] = await unlike('cache.json', name, { made: true, counted: false })
    expect(Object.fromEntries(Object.entries(seen).filter(([, found]) => found.length > 0))).toEqual({})
  })

  it('the simulated engine returns kv_transfer_params of a prefill leg as NIXL does', async () => {
    const nixl = await startFleet({
      engines: 1,
      model: 'tiny',
      profile: 'instant',
      apiKey: engineKey,
      connector: 'nixl',
      vocabularySize: 2048,
      limits: { blockTokens: 32 },
    })
    try {
      const { name, request, response } = read<VectorFile>('nixl.json').exchanges[0]!
      const simulated = await record(nixl.urls[0]!, name, request)
      const found = differences(response, simulated.response, { made: true, counted: true })
      // The ids of engine, blocks and request differ.
      expect(found.filter((difference) => !/remote_(engine_id|port|request_id|block_ids)\b/.test(difference))).toEqual(
        [],
      )
    } finally {
      await nixl.close()
    }
  })

  it('the simulated engine fetches blocks of a prefill engine once or twice, and fails as NIXL does for an unknown engine', async () => {
    const shared = {
      model: 'tiny',
      profile: 'instant',
      apiKey: engineKey,
      connector: 'nixl',
      vocabularySize: 2048,
      limits: { blockTokens: 32, maxModelLen: 4096 },
    } as const
    const nixl = await startFleet({ ...shared, engines: [{ role: 'prefill' }, { role: 'decode' }] })
    try {
      const real = (name: string) => read<VectorFile>('nixl.json').exchanges.find((exchange) => exchange.name === name)!
      const held = await record(nixl.urls[0]!, 'nixl-prefill', real('nixl-prefill').request)
      const { kv_transfer_params: params } = held.response.json as { kv_transfer_params: object }
      for (const name of ['nixl-decode', 'nixl-decode-again', 'nixl-unknown-remote']) {
        const { request, response } = real(name)
        // Blocks of this fleet's prefill engine instead of the recorded ones.
        const json =
          name === 'nixl-unknown-remote' ? request.json : { ...(request.json as object), kv_transfer_params: params }
        const simulated = await record(nixl.urls[1]!, name, { ...request, json })
        expect({ name, unlike: differences(response, simulated.response, { made: true, counted: false }) }).toEqual({
          name,
          unlike: [],
        })
      }
    } finally {
      await nixl.close()
    }
  })

  it('the simulated engine has a subset of vLLM’s metrics with equal names, types and labels', async () => {
    const { body } = await send({ url: url(), method: 'GET', path: '/metrics' })
    const real = new Map(
      read<{ families: MetricFamily[] }>('metrics.json').families.map((family) => [family.name, family]),
    )
    const simulated = metricFamilies(body.toString('utf8')).filter(
      ({ name }) => name.startsWith('vllm:') && !name.endsWith('_created'),
    )
    expect(simulated.length).toBeGreaterThan(20)
    for (const { name, type, labels } of simulated) {
      expect({ name, type, labels: [...labels].sort() }).toEqual({
        name,
        type: real.get(name)?.type,
        labels: [...(real.get(name)?.labels ?? [])].sort(),
      })
    }
  })
})
