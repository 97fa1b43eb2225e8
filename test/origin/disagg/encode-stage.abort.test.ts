import { expect, it } from 'vitest'
import type { AttemptContext } from '../../../src/origin/attempt-context.ts'
import { encodeStage } from '../../../src/origin/disagg/encode-stage.ts'
import { StageTimer } from '../../../src/origin/stage-timer.ts'
import type { AbortSignalLike } from '../../../src/ports/abort-signal.ts'
import { OriginError, type OriginRequest } from '../../../src/ports/origin.ts'
import { chat } from '../../../src/protocols/chat.ts'

/**
 * One image per encoder; both requests run at the same time. Each encoder answers when the test settles its request.
 */
function openStage() {
  const client = new AbortController()
  const requests: { readonly signal: AbortSignalLike; readonly fail: (error: Error) => void }[] = []
  const content = ['a', 'b'].map((name) => ({ type: 'image_url', image_url: { url: `http://images/${name}` } }))
  const encoders = ['e0', 'e1']
  const attempt = {
    exchange: {
      id: 'id',
      protocol: chat,
      source: { json: { messages: [{ role: 'user', content }] }, admission: () => ({ model: 'm' }) },
      headers: ['x-request-id', 'label'],
      signal: client.signal,
      scope: {},
    },
    ports: {
      now: () => 0,
      log: { warn: () => {} },
      origin: {
        send: ({ signal }: OriginRequest) =>
          new Promise((_, reject) => {
            signal.addEventListener('abort', () => reject(signal.reason as Error))
            requests.push({ signal, fail: reject })
          }),
      },
    },
    placed: {
      placement: { kind: 'staged', encode: encoders, prefill: null, decode: 'd', runnersUp: [] },
      route: {
        cluster: { id: 'c' },
        pool: { split: { encode: { cachedItems: 0, concurrency: 2, limitMs: 1000 } }, limits: { connectMs: 1000 } },
        targets: new Map(
          encoders.map((id) => [id, { kind: 'server', id, url: `http://${id}`, headers: [], binding: null }]),
        ),
      },
    },
    stages: new StageTimer({}),
  } as unknown as AttemptContext
  return { client, requests, ended: encodeStage(attempt, encoders) }
}

it('the encode stage aborts all encoders if the client disconnects', async () => {
  const { client, requests, ended } = openStage()
  const gone = new Error('the client is gone')
  client.abort(gone)
  await expect(ended).rejects.toBe(gone)
  expect(requests.map(({ signal }) => signal.aborted)).toEqual([true, true])
})

it('the encode stage aborts the other encoders if one fails', async () => {
  const { requests, ended } = openStage()
  requests[0]!.fail(new OriginError('reset', 'e0 failed'))
  await expect(ended).resolves.toMatchObject({ failed: { engine: { id: 'e0' }, failure: 'reset' } })
  expect(requests.map(({ signal }) => signal.aborted)).toEqual([false, true])
})
