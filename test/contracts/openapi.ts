/** Responses of the admin API against the schemas of `/openapi.json`. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as z from 'zod'
import { FakeEngine } from '../kit/fake-engine.ts'
import { runtimeNames, startRuntime, type RunningGateway, type Runtime } from '../kit/gateway.ts'

const ADMIN = { authorization: 'Bearer admin-key-1' }
const METRICS = `vllm:num_requests_running 0
vllm:num_requests_waiting 0
vllm:kv_cache_usage_perc 0
vllm:cache_config_info{block_size="16",num_gpu_blocks="100",enable_prefix_caching="True"} 1
`

type Node = { [key: string]: unknown }

/** Forbids keys that the schema does not name, so that a new field without documentation fails. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed)
  if (typeof schema !== 'object' || schema === null) return schema
  const copy = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)])) as Node
  return 'properties' in copy ? { ...copy, additionalProperties: false } : copy
}

export function openApiContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  let engine: FakeEngine
  let subject: RunningGateway
  let components: unknown

  const ask = async (method: string, path: string, body?: object) => {
    const response = await fetch(subject.url + path, {
      method,
      headers: { ...ADMIN, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { status: response.status, headers: response.headers, json: (await response.json()) as unknown }
  }
  /** Differences between a value and a schema of the document. */
  const faultsOf = (schema: string, value: unknown): string => {
    const json = JSON.parse(
      JSON.stringify({ ...ref(schema), $defs: (components as { schemas: object }).schemas }).replaceAll(
        '#/components/schemas/',
        '#/$defs/',
      ),
    ) as object
    const read = z.fromJSONSchema(closed(json) as Parameters<typeof z.fromJSONSchema>[0]).safeParse(value)
    return read.success ? '' : JSON.stringify(read.error.issues)
  }

  beforeAll(async () => {
    engine = await FakeEngine.open({
      'GET /metrics': { body: METRICS },
      '*': { body: { choices: [{ text: 'a' }], usage: { prompt_tokens: 3, completion_tokens: 1 } } },
    })
    subject = await startRuntime(runtime, {
      open: true,
      admin: { secret: 'admin-key-1' },
      clusters: [
        {
          id: 'c',
          pools: [
            {
              model: 'm',
              stats_interval_ms: 100,
              slo: { ttft_ms: 60_000 },
              engines: [{ id: 'e', url: engine.url }],
            },
          ],
        },
      ],
    })
    components = ((await ask('GET', '/openapi.json')).json as { components: unknown }).components
  })
  afterAll(async () => {
    await subject.close()
    await engine.close()
  })

  describe(`the schemas of the OpenAPI document, on ${name}`, () => {
    const chat = { model: 'm', messages: [{ role: 'user', content: 'x' }] }

    it.each([
      ['Fleet', 'GET', '/v1/firstlight/fleet'],
      ['Usage', 'GET', '/v1/firstlight/usage'],
      ['Keys', 'GET', '/v1/firstlight/keys'],
      ['WeightedModels', 'GET', '/v1/firstlight/weighted-models'],
      ['DryRun', 'POST', '/v1/firstlight/route'],
      ['Drain', 'POST', '/v1/firstlight/engines/e/drain?deadline_s=60'],
      ['Drain', 'POST', '/v1/firstlight/engines/e/undrain'],
      ['Ready', 'GET', '/ready'],
    ])('%s describes %s %s', async (schema, method, path) => {
      await ask('POST', '/v1/chat/completions', chat)
      const { status, json } = await ask(method, path, method === 'POST' ? chat : undefined)
      expect(faultsOf(schema, json)).toBe('')
      expect(status).toBe(200)
    })

    it('a pool with an objective has its capacity in the fleet and in the metrics', async () => {
      await ask('POST', '/v1/chat/completions', chat)
      const { json } = await ask('GET', '/v1/firstlight/fleet')
      expect(json).toMatchObject({
        pools: [
          { capacity: [{ role: 'any', replicas: 1, spare_requests_per_s: expect.any(Number), exhaustion_s: null }] },
        ],
      })
      const metrics = await (await fetch(`${subject.url}/metrics`, { headers: ADMIN })).text()
      expect(metrics).toContain('firstlight_pool_replicas_needed{model="m",cluster="c",role="any"} 1\n')
    })

    it('Decision and Request describe a request that was served', async () => {
      const { headers } = await ask('POST', '/v1/chat/completions', chat)
      const id = headers.get('x-firstlight-decision')
      const decision = await ask('GET', `/v1/firstlight/decisions/${id}`)
      expect([decision.status, faultsOf('Decision', decision.json)]).toEqual([200, ''])
      const request = await ask('GET', `/v1/firstlight/requests/${id}`)
      expect([request.status, faultsOf('Request', request.json)]).toEqual([200, ''])
    })

    it('Pause and Resume describe the pause of a pool', async () => {
      const paused = await ask('POST', '/v1/firstlight/pools/m/pause?mode=wait')
      expect([paused.status, faultsOf('Pause', paused.json)]).toEqual([200, ''])
      const resumed = await ask('POST', '/v1/firstlight/pools/m/resume')
      expect([resumed.status, faultsOf('Resume', resumed.json)]).toEqual([200, ''])
    })

    it('Error describes errors', async () => {
      const { status, json } = await ask('GET', '/v1/firstlight/decisions/unknown')
      expect([status, faultsOf('Error', json)]).toEqual([404, ''])
    })

    it('the schemas of the OpenAPI document reject a response with a missing or an undocumented field', () => {
      expect(faultsOf('Ready', {})).not.toBe('')
      expect(faultsOf('Ready', { status: 'ready', more: 1 })).not.toBe('')
    })
  })
}

const ref = (name: string): object => ({ $ref: `#/components/schemas/${name}` })
