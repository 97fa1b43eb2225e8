import { expect, it } from 'vitest'
import { detokenize } from '../../../src/origin/continuation/engine-calls.ts'
import { OriginError, type Origin, type OriginAnswer } from '../../../src/ports/origin.ts'
import { defaultTimers } from '../../../src/timers.ts'

/** Fails as often as there are failures, then answers. */
function contextOf(failures: OriginError[]): { readonly context: Parameters<typeof detokenize>[0]; calls: number } {
  const seen = { context: null as unknown as Parameters<typeof detokenize>[0], calls: 0 }
  const answer: Partial<OriginAnswer> = {
    status: 200,
    read: async () => new TextEncoder().encode('{"prompt":"text"}'),
  }
  const send: Origin['send'] = async () => {
    seen.calls++
    const failure = failures.shift()
    if (failure !== undefined) throw failure
    return answer as OriginAnswer
  }
  seen.context = {
    ports: { origin: { send } },
    target: { kind: 'server', id: 'e', url: 'http://engine', headers: [], binding: null },
    signal: new AbortController().signal,
    timers: defaultTimers,
    model: 'm',
  }
  return seen
}

const lost = (): OriginError => new OriginError('reset', 'the connection was lost')

it('a continuation calls an engine again whose idle connection was closed', async () => {
  const seen = contextOf([lost()])
  expect(await detokenize(seen.context, [1])).toBe('text')
  expect(seen.calls).toBe(2)
})

it('a continuation calls an engine twice at most, and once if it gives no answer in time', async () => {
  const twice = contextOf([lost(), lost(), lost()])
  await expect(detokenize(twice.context, [1])).rejects.toMatchObject({ failure: 'reset' })
  expect(twice.calls).toBe(2)
  const once = contextOf([new OriginError('first_byte_timeout', 'no byte')])
  await expect(detokenize(once.context, [1])).rejects.toMatchObject({ failure: 'first_byte_timeout' })
  expect(once.calls).toBe(1)
})
