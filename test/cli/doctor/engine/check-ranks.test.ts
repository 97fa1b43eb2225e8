import { expect, it } from 'vitest'
import { FakeEngine } from '../../../kit/fake-engine.ts'
import { visitPool } from '../ask.ts'

const metrics = [0, 1].map((rank) => `vllm:num_requests_running{engine="${rank}"} 0\n`).join('')

it.each([
  ['off', 'warning', '2 data-parallel ranks are one engine'],
  ['auto', 'ok', '2, each of which is an engine'],
  [2, 'ok', '2, each of which is an engine'],
  [4, 'problem', '/metrics shows 2, and `data_parallel` names 4'],
])('doctor finds two ranks with data_parallel: %s', async (dataParallel, mark, message) => {
  await using engine = await FakeEngine.open({
    'GET /metrics': { body: metrics },
    'GET /v1/models': { body: { object: 'list', data: [{ id: 'm', object: 'model', owned_by: 'vllm' }] } },
  })
  const seen = await visitPool({ model: 'm', engines: [{ id: 'a', url: engine.url, data_parallel: dataParallel }] })
  expect(seen.find('ranks')).toMatchObject({ mark, message })
})

it.each([
  [5657, null],
  [5558, 'port 5558 has the replays of rank 0 and the events of rank 1'],
])('doctor finds ports that two ranks use: replays from %i', async (replays, message) => {
  const source = (rank: number) => ({
    enable_kv_cache_events: true,
    publisher: 'zmq',
    endpoint: `tcp://*:${5557 + rank}`,
    replay_endpoint: `tcp://*:${replays + rank}`,
    topic: '',
  })
  await using engine = await FakeEngine.open({
    'GET /metrics': { body: metrics },
    'GET /v1/models': { body: { object: 'list', data: [{ id: 'm', object: 'model', owned_by: 'vllm' }] } },
    'GET /kv_event_sources': { body: { 0: source(0), 1: source(1) } },
  })
  const seen = await visitPool({ model: 'm', engines: [{ id: 'a', url: engine.url, data_parallel: 2 }] })
  if (message === null) expect(() => seen.find('kv_ports')).toThrow('0 findings')
  else expect(seen.find('kv_ports')).toMatchObject({ mark: 'problem', message })
})
