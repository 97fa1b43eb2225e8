import { expect, it } from 'vitest'
import { engineTypeNamed, guideOf } from '../../src/engines/engine-guides.ts'

it('the type of an engine is found by the names in configurations of other products', () => {
  expect(['hosted_vllm', 'dynamo.sglang', 'ollama_chat'].map((name) => engineTypeNamed(name)?.name)).toEqual([
    'vllm',
    'sglang',
    'ollama',
  ])
  expect(engineTypeNamed('bedrock')).toBeNull()
})

it('an engine type can tell a cache that was not reset', () => {
  const { succeeded } = guideOf({ name: 'vllm' }).cacheReset!
  expect([succeeded(200, {}), succeeded(200, { success: true }), succeeded(200, { success: false })]).toEqual([
    true,
    true,
    false,
  ])
  expect(guideOf({ name: 'sglang' }).cacheReset?.succeeded(400, null)).toBe(false)
})

it('KV events of vLLM are listed by global rank', () => {
  const sources = guideOf({ name: 'vllm' }).kvEvents!.sources!.read({
    '4': {
      enable_kv_cache_events: true,
      publisher: 'zmq',
      endpoint: 'tcp://*:5561',
      replay_endpoint: null,
      topic: '',
    },
    '5': { enable_kv_cache_events: true, publisher: 'null', endpoint: 'tcp://*:5562' },
  })
  expect(sources?.map(({ rank, enabled, endpoint }) => [rank, enabled, endpoint])).toEqual([
    ['4', true, 'tcp://*:5561'],
    ['5', false, 'tcp://*:5562'],
  ])
})

it('KV events of SGLang have one port for each rank', () => {
  const kvEvents = { publisher: 'zmq', endpoint_host: '*', endpoint_port_base: 5557, topic: 'kv', dp_size: 2 }
  const { read } = guideOf({ name: 'sglang' }).kvEvents!.sources!
  expect(read({ kv_events: { ...kvEvents, replay_endpoint_port_base: 5657 } })?.at(1)).toEqual({
    rank: '1',
    enabled: true,
    endpoint: 'tcp://*:5558',
    replayEndpoint: 'tcp://*:5658',
    topic: 'kv',
  })
  expect(read({ kv_events: null })).toBeNull()
})
