/** What a request's source tells about the pool that serves it. */
import { expect, it } from 'vitest'
import { InferenceSource, type SourceParts } from '../../src/api/inference-source.ts'
import type { InferenceRequest } from '../../src/api/inference-request.ts'
import type { MidStream } from '../../src/core/continuation/continuable.ts'
import type { PoolRoute } from '../../src/origin/pool-route.ts'
import { chat } from '../../src/protocols/chat.ts'

const TOOLS = [{ type: 'function', function: { name: 'sail', parameters: {} } }]

const sourceOf = (json: object): InferenceSource => {
  const inference = { endpoint: { protocol: chat }, incoming: { scope: {} }, body: { json } }
  const reading = { stream: true, hideUsage: false }
  return new InferenceSource({} as SourceParts, inference as unknown as InferenceRequest, reading)
}

const poolWith = (midStream: MidStream) => ({ retry: { midStream } }) as PoolRoute['pool']

it('a stream is continued as the last pool that was tried allows, whatever the first one did', () => {
  const source = sourceOf({ messages: [], temperature: 0, tools: TOOLS })
  expect(source.prepareContinuation(poolWith('ids'), undefined)).toBe(false)
  expect(source.continuation()).toBe('tools')
  expect(source.prepareContinuation(poolWith('replay'), undefined)).toBe(true)
  expect(source.continuation()).toMatchObject({ repeats: true, barrier: 'tools' })
  expect(source.prepareContinuation(poolWith('off'), undefined)).toBe(false)
  expect(source.continuation()).toBeNull()
})

it('a continuation has the priority that the last pool gave its request', () => {
  const source = sourceOf({ messages: [], temperature: 0 })
  for (const priority of ['3', '5']) source.prepareContinuation(poolWith('ids'), priority)
  expect(source.continuation()).toMatchObject({ sampling: { priority: 5 } })
})
