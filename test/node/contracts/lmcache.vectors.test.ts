/**
 * Recorded requests of real LMCache servers to their coordinator, sent to the gateway and to the simulated coordinator.
 */
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { send } from '../../../packages/bench/conformance/http.ts'
import { differences } from '../../../packages/bench/conformance/likeness.ts'
import {
  bodyText,
  encodeBody,
  type Exchange,
  type RecordedResponse,
  type VectorFile,
} from '../../../packages/bench/conformance/vector.ts'
import type { RunningGateway } from '../../../src/platform/node/start-gateway.ts'
import { startFleet, type RunningFleet } from '../../../packages/simulator/src/node/fleet-host.ts'
import { FakeCoordinator } from '../../../packages/simulator/src/lmcache/coordinator.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

const { exchanges } = JSON.parse(
  readFileSync(new URL('../../vectors/lmcache.json', import.meta.url), 'utf8'),
) as VectorFile
const named = (name: string): Exchange => exchanges.find((exchange) => exchange.name === name)!
const exact = { made: false, counted: false }

/** Headers are not compared if none were recorded (traffic between the servers). */
function answerOf({ response }: Exchange, status: number, type: string | undefined, text: string): RecordedResponse {
  const headers = type === undefined || response.headers['content-type'] === undefined ? {} : { 'content-type': type }
  return { status, headers, ...encodeBody(text, '') }
}

interface LookupBody {
  readonly token_ids: readonly number[]
  readonly model_name: string
}

interface LookupAnswer {
  readonly chunks: number
  readonly results: readonly {
    readonly key: { readonly chunk_hash_hex: string }
    readonly placements: readonly { readonly instance_id: string; readonly tier: string; readonly shared: boolean }[]
  }[]
}

/** Result of a lookup: chunks and their holders. */
function heldBy(response: Pick<RecordedResponse, 'json' | 'sse' | 'text'>): unknown {
  const { chunks, results } = JSON.parse(bodyText(response)) as LookupAnswer
  return {
    chunks,
    held: results.map(({ key, placements }) => ({
      chunk: key.chunk_hash_hex,
      by: placements.map(({ instance_id: id, tier, shared }) => `${id} ${tier} ${shared}`).sort(),
    })),
  }
}

describe('the gateway in the place of LMCache’s coordinator', () => {
  let fleet: RunningFleet
  let gateway: RunningGateway
  const answers = new Map<string, RecordedResponse>()

  beforeAll(async () => {
    fleet = await startFleet({
      engines: 2,
      model: 'tiny',
      modelPath: 'models/tiny',
      profile: 'instant',
      vocabularySize: 2048,
    })
    const engines = ['left', 'right'].map((id, at) => ({ id, url: fleet.urls[at], lmcache_instance: `node-${id}` }))
    const pools = [
      {
        model: 'tiny',
        policy: 'kv_aware',
        block_tokens: 32,
        lmcache: { registry: true, chunk_tokens: 256, token: 'registry-secret' },
        engines,
      },
    ]
    gateway = await startNodeGateway({ clusters: [{ id: 'lab', pools }] })
    for (const { name, request } of exchanges) {
      const answer = await send({
        url: gateway.url,
        method: request.method,
        path: `/lmcache/lab/registry-secret${request.path}`,
        ...(request.json === undefined ? {} : { body: request.json }),
      })
      answers.set(
        name,
        answerOf(named(name), answer.status, answer.headers['content-type'], answer.body.toString('utf8')),
      )
    }
  })
  afterAll(async () => {
    await gateway.stop(AbortSignal.abort())
    await fleet.close()
  })

  it.each(exchanges.filter(({ name }) => !name.startsWith('lookup')).map(({ name }) => name))(
    'the gateway in place of a coordinator answers as it does: %s',
    (name) => {
      const found = differences(named(name).response, answers.get(name)!, exact)
      // Only the times differ.
      expect(found.filter((difference) => !difference.includes('registration_time'))).toEqual([])
    },
  )

  it.each(
    exchanges
      .filter(({ name, response }) => name.startsWith('lookup') && response.status === 200)
      .map(({ name }) => name),
  )('the gateway in place of a coordinator finds the same chunks at the same servers: %s', (name) => {
    expect(heldBy(answers.get(name)!)).toEqual(heldBy(named(name).response))
  })

  it.each(['left', 'right'])(
    'the gateway in place of a coordinator sends a prompt to the engine beside the server that reported it: %s',
    async (side) => {
      const { token_ids: prompt } = named(side === 'left' ? 'lookup-left' : 'lookup-right-longer').request
        .json as LookupBody
      const { status, headers } = await send({
        url: gateway.url,
        method: 'POST',
        path: '/v1/completions',
        body: { model: 'tiny', prompt: prompt.slice(0, 1100), max_tokens: 1 },
      })
      expect({ status, engine: headers['x-firstlight-engine'], policy: headers['x-firstlight-policy'] }).toEqual({
        status: 200,
        engine: side,
        policy: 'kv_aware',
      })
    },
  )
})

describe('the simulated coordinator', () => {
  const coordinator = new FakeCoordinator(256)
  coordinator.join('node-left', '127.0.0.1')
  coordinator.join('node-right', '127.0.0.2')
  for (const side of ['left', 'right']) {
    const { token_ids: tokens } = named(side === 'left' ? 'lookup-left' : 'lookup-right-longer').request
      .json as LookupBody
    coordinator.store('models/tiny', tokens.slice(0, 1100), { instance: `node-${side}` })
  }
  const ask = async ({ request }: Exchange): Promise<RecordedResponse> => {
    const response = await coordinator.fetch(
      new Request(`http://coordinator${request.path}`, {
        method: request.method,
        ...(request.json === undefined ? {} : { body: JSON.stringify(request.json) }),
      }),
    )
    return answerOf(
      named('healthz'),
      response.status,
      response.headers.get('content-type') ?? undefined,
      await response.text(),
    )
  }

  it.each(['healthz', 'instances', 'lookup-left', 'lookup-right-longer', 'lookup-nothing', 'lookup-short'])(
    'the simulated coordinator answers as the real one: %s',
    async (name) => {
      const found = differences(named(name).response, await ask(named(name)), exact)
      expect(
        found.filter((difference) => !/registration_time|access_count|size_bytes|http_port|mq_port/.test(difference)),
      ).toEqual([])
    },
  )

  it('the simulated coordinator rejects an empty request', async () =>
    expect((await ask(named('lookup-empty'))).status).toBe(named('lookup-empty').response.status))
})
