import { beforeEach, describe, expect, it } from 'vitest'
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { AdapterLoad } from '../../../src/core/contract/placement.ts'
import type { PoolConfig } from '../../../src/core/contract/pool-config.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { admission, engines, outcome, pool, probe } from '../../kit/pool-fixtures.ts'
import { chain, range } from '../prefix-index/block-chains.ts'

const BLOCK_TOKENS = 64

function open(ids: readonly string[], changes: Partial<PoolConfig> = {}) {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  const config = pool({
    policy: { name: 'predicted', options: {} },
    engines: engines(...ids),
    adapterLoading: { adapters: ['sql', 'poet', 'code'], maxPerEngine: 2 },
    ...changes,
  })
  state.configure(1, config, 0)
  const clock = { now: 0, requests: 0 }
  const tryAdmit = (adapter: string | null, more: Partial<Admission> = {}) => {
    clock.requests += 1
    return state.admit(admission({ id: `r${clock.requests}`, adapter, model: adapter ?? 'm', ...more }), clock.now)
  }
  const admit = (adapter: string | null, more: Partial<Admission> = {}) => {
    const answer = tryAdmit(adapter, more)
    if ('refusal' in answer || answer.placement.kind !== 'whole') throw new Error(JSON.stringify(answer))
    const { engine, adapter: load } = answer.placement
    return { key: answer.key, engine, load }
  }
  const settle = (engine: string, adapter: string, loaded = true): void => {
    state.observe([{ kind: 'adapter', engine, adapter, loaded }], clock.now)
  }
  const end = (key: string, changed: Parameters<typeof outcome>[0] = {}): void => {
    clock.now += 1
    state.release(key, outcome(changed), clock.now)
  }
  /** One request whose adapter is loaded first if that is asked for. */
  const serve = (adapter: string, more: Partial<Admission> = {}) => {
    const placed = admit(adapter, more)
    if (placed.load !== undefined) settle(placed.engine, adapter)
    end(placed.key)
    return placed
  }
  const residents = (id: string) => state.digest(clock.now).engines.find((one) => one.id === id)!.residents
  return { state, clock, tryAdmit, admit, settle, end, serve, residents }
}

const loadOf = (load: string, ...unload: string[]): AdapterLoad => ({ load, unload })

let one = open(['a'])
beforeEach(() => {
  one = open(['a'])
})

describe('adapters that gateways load', () => {
  it('an adapter that no engine has is loaded by one server, for all requests that wait', () => {
    const { admit, settle, residents } = open(['a', 'b', 'c'])
    const placed = Array.from({ length: 50 }, () => admit('sql'))
    expect(new Set(placed.map(({ engine }) => engine)).size).toBe(1)
    for (const { load } of placed) expect(load).toEqual(loadOf('sql'))
    settle(placed[0]!.engine, 'sql')
    expect(admit('sql')).toMatchObject({ engine: placed[0]!.engine, load: undefined })
    expect(residents(placed[0]!.engine)).toEqual({ loaded: ['sql'], loads: 1, unloads: 0, failures: 0 })
  })

  it('different adapters go to different servers', () => {
    const { serve } = open(['a', 'b', 'c', 'd'], {
      adapterLoading: { adapters: range(0, 20).map(String), maxPerEngine: 9 },
    })
    expect(new Set(range(0, 20).map((name) => serve(String(name)).engine)).size).toBeGreaterThan(2)
  })

  it('the least recently used adapter without requests makes room', () => {
    const { serve, admit, residents, settle } = one
    serve('sql')
    serve('poet')
    serve('sql')
    const code = admit('code')
    expect(code.load).toEqual(loadOf('code', 'poet'))
    settle('a', 'code')
    expect(residents('a')).toEqual({ loaded: ['sql', 'code'], loads: 3, unloads: 1, failures: 0 })
  })

  it('an adapter with live requests is never unloaded: a request without room is refused', () => {
    const { serve, admit, tryAdmit, end, settle } = one
    const sql = admit('sql')
    settle('a', 'sql')
    const poet = admit('poet')
    settle('a', 'poet')
    expect(tryAdmit('code')).toMatchObject({ refusal: { reason: 'engines_full' } })
    end(poet.key)
    expect(serve('code').load).toEqual(loadOf('code', 'poet'))
    end(sql.key)
    expect(serve('poet').load).toEqual(loadOf('poet', 'sql'))
  })

  it('an adapter that is being unloaded gets no request until the load that needs its room has ended', () => {
    const { serve, admit, tryAdmit, settle, end } = one
    serve('sql')
    serve('poet')
    const code = admit('code')
    expect(code.load).toEqual(loadOf('code', 'sql'))
    expect(tryAdmit('sql')).toMatchObject({ refusal: { reason: 'engines_full' } })
    settle('a', 'code')
    end(code.key)
    expect(serve('sql').load).toEqual(loadOf('sql', 'poet'))
  })

  it('a failed load is tried at another server, and later again', () => {
    const { admit, settle, end, clock, tryAdmit } = open(['a', 'b'])
    const first = admit('sql')
    settle(first.engine, 'sql', false)
    end(first.key, { result: 'engine_failed', failure: 'lacks_adapter' })
    const second = admit('sql')
    expect(second.engine).not.toBe(first.engine)
    settle(second.engine, 'sql', false)
    end(second.key, { result: 'engine_failed', failure: 'lacks_adapter' })
    expect(tryAdmit('sql')).toMatchObject({ refusal: { reason: 'engines_unavailable' } })
    expect(tryAdmit(null)).not.toHaveProperty('refusal')
    clock.now += 30_000
    expect(admit('sql').load).toEqual(loadOf('sql'))
  })

  it('a load whose gateways have gone is forgotten with their bookings', () => {
    const { admit, end, residents } = one
    const placed = [admit('sql'), admit('sql')]
    for (const { key } of placed) end(key, { result: 'abandoned' })
    expect(residents('a')!.loaded).toEqual([])
    expect(admit('sql').load).toEqual(loadOf('sql'))
  })

  it('adapters that a server lists need no load, and those that it lost need one again', () => {
    const { state, admit, clock, end } = one
    state.observe([probe('a', clock.now, { adapters: ['sql'] })], clock.now)
    const listed = admit('sql')
    expect(listed.load).toBeUndefined()
    end(listed.key)
    state.observe([probe('a', ++clock.now, { healthy: false })], clock.now)
    state.observe([probe('a', ++clock.now, { adapters: [] })], clock.now)
    expect(admit('sql').load).toEqual(loadOf('sql'))
  })

  it('a list that was read before a load does not take the adapter away', () => {
    const { state, serve, admit, clock } = one
    serve('sql')
    clock.now += 29_000
    state.observe([probe('a', clock.now, { adapters: [] })], clock.now)
    expect(admit('sql').load).toBeUndefined()
  })

  it('an adapter that the engine lacked is loaded again', () => {
    const { serve, admit, end } = one
    serve('sql')
    const placed = admit('sql')
    expect(placed.load).toBeUndefined()
    end(placed.key, { result: 'engine_failed', failure: 'lacks_model' })
    expect(admit('sql').load).toEqual(loadOf('sql'))
  })

  it('a second attempt beside a slow one loads nothing', () => {
    const { admit, tryAdmit } = open(['a', 'b'])
    const { engine } = admit('sql')
    const hedge = { id: 'r1', attempt: 1, second: { kind: 'hedge' }, avoid: [engine] } as const
    expect(tryAdmit('sql', hedge)).toMatchObject({ refusal: { reason: 'engines_unavailable' } })
  })

  it('the cache of an adapter is cold after it was loaded again', () => {
    const { serve, admit, state } = one
    const prompt = { blocks: chain(range(0, 20)), promptTokens: 20 * BLOCK_TOKENS + 1 }
    const cachedOf = (key: string): number | null => state.explain(key)!.predictedCachedTokens
    serve('sql', prompt)
    expect(cachedOf(serve('sql', prompt).key)).toBe(20 * BLOCK_TOKENS)
    serve('poet')
    serve('code')
    const again = serve('sql', prompt)
    expect(again.load).toEqual(loadOf('sql', 'poet'))
    expect(cachedOf(again.key)).toBe(0)
    expect(cachedOf(admit('sql', prompt).key)).toBe(20 * BLOCK_TOKENS)
  })

  it('the ranks of a server share its adapters', () => {
    const [spec] = engines('a')
    const { admit, settle, residents } = open(['a'], { engines: [{ ...spec!, ranks: { count: 2, first: 0 } }] })
    const placed = [admit('sql'), admit('sql', { avoid: ['a/0'] })]
    expect(placed.map(({ engine }) => engine).toSorted()).toEqual(['a/0', 'a/1'])
    settle('a', 'sql')
    expect([admit('sql'), admit('sql')].map(({ load }) => load)).toEqual([undefined, undefined])
    expect([residents('a/0')?.loads, residents('a/1')]).toEqual([1, undefined])
  })

  it('a booking that another replica made keeps its adapter', () => {
    const { state, clock, serve, tryAdmit } = one
    serve('sql')
    const booked = (id: string, adapter: string, load?: AdapterLoad) =>
      state.resume(
        {
          admission: admission({ id, adapter, model: adapter }),
          placement: { kind: 'whole', engine: 'a', runnersUp: [], ...(load === undefined ? {} : { adapter: load }) },
          firstTokenSeen: false,
          outputBlocks: 0,
          ofPeer: 'now',
        },
        clock.now,
      )
    booked('x1', 'sql')
    booked('x2', 'poet', loadOf('poet'))
    expect(tryAdmit('code')).toMatchObject({ refusal: { reason: 'engines_full' } })
  })

  it('a snapshot restores the live requests of adapters', () => {
    const { state, admit, settle, clock } = one
    admit('sql')
    settle('a', 'sql')
    admit('poet')
    const restored = new PoolState({ random: () => 0.5, epoch: 'f' })
    restored.restore(state.snapshot(clock.now)!, clock.now)
    expect(restored.admit(admission({ id: 'z', adapter: 'code', model: 'code' }), clock.now)).toMatchObject({
      refusal: { reason: 'engines_full' },
    })
  })
})
