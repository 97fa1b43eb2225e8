import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { startFleet } from '../../../packages/simulator/src/node/fleet-host.ts'
import { startNodeGateway, type NodeGateway } from '../../kit/node-gateway.ts'
import { visit, type Visit } from './ask.ts'
import { FASTAPI, realVllm } from './recorded-vllm.ts'
import { useEngines } from '../../kit/use-engines.ts'

const KEY = 'edge-key'
const open: { close(): unknown }[] = []
const stub = useEngines(FASTAPI)
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close()
})

const keep = async <One extends { close(): unknown }>(started: Promise<One>): Promise<One> => {
  const one = await started
  open.push(one)
  return one
}

/** A gateway with two simulated engines. */
async function region({
  pool = {},
  key = {},
  document = {},
}: { readonly pool?: object; readonly key?: object; readonly document?: object } = {}): Promise<NodeGateway> {
  const fleet = await keep(startFleet({ engines: 2, model: 'sim', profile: 'instant' }))
  return keep(
    startNodeGateway({
      keys: [{ name: 'edge', secret: KEY, edge: true, ...key }],
      clusters: [
        {
          id: 'here',
          pools: [
            {
              model: 'sim',
              aliases: ['small'],
              engines: fleet.urls.map((url, at) => ({ id: `e${at}`, url })),
              ...pool,
            },
          ],
        },
      ],
      ...document,
    }),
  )
}

/** Findings for a configuration whose cluster `paris` is behind that gateway. */
async function visitEdge(url: string, gateway: object = {}): Promise<Visit> {
  const folder = mkdtempSync(join(tmpdir(), 'doctor-edge-'))
  const file = join(folder, 'firstlight.json')
  try {
    writeFileSync(
      file,
      JSON.stringify({
        listen: '127.0.0.1:0',
        clusters: [{ id: 'paris', gateway: { url, key: KEY, models: [{ model: 'sim' }], ...gateway } }],
      }),
    )
    return await visit('--config', file)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

describe('firstlight doctor and a gateway beside the engines', () => {
  it('doctor for a region reports no problems, and nothing that only applies to engines', async () => {
    const seen = await visitEdge((await region()).url)
    expect(seen.marks).toEqual([])
    expect(seen.code).toBe(0)
    expect(seen.subjects).toMatchObject([
      { kind: 'gateway', name: 'paris', is: expect.stringContaining('Firstlight ') },
    ])
    expect(seen.find('digest').message).toBe('2 engines, 0 requests running')
    expect(seen.find('cut').message).toContain('divided into the same blocks')
    expect(seen.find('round_trip').message).toMatch(/^[\d.]+ ms round trip/)
    expect(seen.json).not.toContain(KEY)
  })

  it.each<[string, Parameters<typeof region>[0], object, Record<string, string>, string]>([
    ['key was rejected', {}, { key: 'another' }, { key: 'problem' }, '`gateway.key` of cluster paris'],
    ['may not tell what it expects', { key: { edge: false } }, {}, { digest: 'problem' }, 'edge: true'],
    ['does not serve the model', {}, { models: [{ model: 'simm' }] }, { models: 'problem' }, 'Correct the name'],
    ['may not serve it to this key', { key: { models: ['small'] } }, {}, { models: 'problem' }, '`models` of the key'],
    [
      'cuts prompts otherwise',
      { pool: { block_tokens: 32 } },
      {},
      { cut: 'warning' },
      'the same name, `block_tokens` and `tokenizer`',
    ],
    ['lets everybody in', { document: { keys: undefined } }, {}, { key: 'note' }, 'edge: true'],
    ['is elsewhere than the configuration says', {}, { rtt_ms: 80 }, { round_trip: 'note' }, 'Remove `rtt_ms`'],
  ])('doctor for a region reports that it %s, with the next step', async (_, there, here, marks, next) => {
    const seen = await visitEdge((await region(there)).url, here)
    expect(seen.marks).toEqual(Object.entries(marks).map(([check, mark]) => `${check}: ${mark}`))
    expect(seen.find(Object.keys(marks)[0]!).next).toContain(next)
  })

  it('doctor for a region checks each model', async () => {
    const seen = await visitEdge((await region()).url, {
      models: [{ model: 'sim' }, { model: 'small', block_tokens: 16 }],
    })
    expect(seen.marks).toEqual(['cut: warning'])
    expect(seen.out).toContain('2 engines for small')
  })

  it('doctor for a region reports that none of its engines is available', async () => {
    const seen = await visitEdge(
      (await region({ pool: { engines: [{ id: 'gone', url: 'http://127.0.0.1:9' }], stats_interval_ms: 100 } })).url,
    )
    expect(seen.find('digest').mark).toBe('warning')
  })

  it('doctor for a region does not count our own engines, which it learned from us, and reports if it has no others', async () => {
    const cost_model = { fixed_s: 0, per_token_s: 0, per_pair_s: 0 }
    const digest = {
      version: 1,
      cluster: 'c',
      pool: 'sim',
      engines: 3,
      requests: 0,
      queued: 0,
      confidence: 0,
      prefixes: '',
      soonest: { wait_s: 0, cost_model },
      usual: { wait_s: 0, cost_model },
    }
    const others = [{ ...digest, via: ['1.1 firstlight-00000000'] }]
    const answersWith = (here: readonly object[]): NonNullable<Parameters<typeof stub>[0]> => ({
      'GET /ready': { body: { status: 'ready' } },
      'GET /version': { body: { version: '0.0.0' } },
      'GET /v1/models': ({ headers }) =>
        headers.authorization === undefined ? { status: 401 } : { body: { data: [{ id: 'sim' }] } },
      'GET /v1/firstlight/digest': ({ headers }) => ({
        body: { cut: 1, region_digests: [...here, { ...digest, via: [headers.via, '1.1 firstlight-00000000'] }] },
      }),
    })
    expect((await visitEdge((await stub(answersWith(others))).url)).find('digest').message).toMatch(/^3 engines, 0/)
    expect((await visitEdge((await stub(answersWith([]))).url)).find('digest')).toMatchObject({
      mark: 'problem',
      message: expect.stringContaining('lead back') as unknown,
    })
  })

  it('doctor for a region does not treat it as an engine', async () => {
    const { url } = await stub(realVllm)
    expect((await visitEdge(url)).find('firstlight')).toMatchObject({
      mark: 'problem',
      next: expect.stringContaining('`pools`'),
    })
  })

  it('doctor for a region reports a closed port, and that a binding cannot be checked', async () => {
    const nobody = await visitEdge('http://127.0.0.1:9')
    expect(nobody.marks).toEqual(['reachable: unreachable'])
    expect(nobody.code).toBe(2)
    expect(nobody.find('reachable').next).not.toContain('vllm')
    expect((await visitEdge('http://paris.internal', { binding: 'VPC' })).marks).toEqual(['reachable: note'])
  })
})
