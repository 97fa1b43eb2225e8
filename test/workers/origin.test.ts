import { expect, inject, it } from 'vitest'
import { ownRequest } from '../../src/origin/own-request.ts'
import { workersOrigin } from '../../src/platform/workers/origin.ts'
import { originContract } from '../contracts/origin.ts'
import '../kit/scripted-engine-context.ts'

originContract('workersOrigin', {
  skip: {
    'a broken engine that nobody can connect to fails as connect':
      'workerd says "Network connection lost" for a refused connection and for a broken one',
    'a broken engine whose head has both lengths is refused':
      "workerd's HTTP client takes transfer-encoding and drops content-length",
    'a broken engine whose head has a head without end is refused':
      "workerd's HTTP client has a larger limit for heads than this one",
  },
  open: async () => ({ ...inject('rawEngine'), origin: workersOrigin() }),
})

it('a service binding is asked by fetch and by nothing else: methods of a binding run at the caller', async () => {
  const used = new Set<string>()
  const region = new Proxy({} as Record<string, unknown>, {
    get(_, name) {
      used.add(String(name))
      return name === 'fetch' ? async () => new Response('{}') : undefined
    },
  })
  const answer = await workersOrigin({ bindings: { REGION_EU: region } }).send(
    ownRequest({ id: 'eu', url: 'http://eu.internal', headers: [], binding: 'REGION_EU' }, '/v1/models', {
      limitMs: 2_000,
    }),
  )
  expect(answer.status).toBe(200)
  expect([...used]).toEqual(['fetch'])
})
