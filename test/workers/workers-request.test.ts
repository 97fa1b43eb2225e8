import { expect, it } from 'vitest'
import { WorkersRequest } from '../../src/platform/workers/workers-request.ts'

const sent = (): Request =>
  new Request('https://gateway.test/v1/models?a=b', {
    headers: [
      ['X-Request-Id', 'one'],
      ['via', '1.1 a'],
      ['via', '1.1 b'],
    ],
  })

it('a request on Workers has the method, URL and headers that were sent, repeated ones joined', () => {
  const { method, url, headers } = new WorkersRequest(sent())
  expect([method, url]).toEqual(['GET', 'https://gateway.test/v1/models?a=b'])
  expect(['x-request-id', 'via', 'host', '__proto__'].map((name) => headers.get(name))).toEqual([
    'one',
    '1.1 a, 1.1 b',
    null,
    null,
  ])
  const visited: string[] = []
  headers.forEach((value, name) => visited.push(name, value))
  expect(visited).toEqual(['via', '1.1 a, 1.1 b', 'x-request-id', 'one'])
})

it('a request on Workers has the signal of the client', () => {
  const request = sent()
  expect(new WorkersRequest(request).signal).toBe(request.signal)
})
