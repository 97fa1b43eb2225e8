import { describe, expect, it } from 'vitest'
import type { PoolRoute } from '../../../src/origin/pool-route.ts'
import { ReachablePools } from '../../../src/origin/probes/reachable-pools.ts'
import type { Alert } from '../../../src/ports/alerts.ts'
import type { Log } from '../../../src/ports/log.ts'
import { probe } from '../../kit/pool-fixtures.ts'
import type { ProbeSignal } from '../../../src/ports/probe.ts'

describe('a pool whose engines are checked', () => {
  const start = (targets: readonly { readonly id: string; readonly kind?: 'provider' }[]) => {
    const lines: string[] = []
    const write = (event: string): void => void lines.push(event)
    const alerts: Alert[] = []
    const pools = new ReachablePools({
      log: { warn: write, info: write } as unknown as Log,
      alerts: { raise: (alert) => void alerts.push(alert) },
      now: () => 1_000,
    })
    const route = {
      cluster: { id: 'c' },
      pool: { model: 'm' },
      targets: new Map(targets.map((target) => [target.id, target])),
    } as unknown as PoolRoute
    const check = (id: string, healthy: boolean): void => pools.checked(route, probe(id, 1, { healthy }) as ProbeSignal)
    return { lines, alerts, check }
  }

  it('a pool whose engines are checked is reported once when no engine of it can be reached, and when one can again', () => {
    const { lines, alerts, check } = start([{ id: 'a' }, { id: 'b' }])
    check('a', false)
    expect(lines).toEqual([])
    check('b', false)
    check('a', false)
    expect(lines).toEqual(['pool_unreachable_engines'])
    check('a', true)
    check('b', false)
    expect(lines).toEqual(['pool_unreachable_engines', 'pool_reachable'])
    check('a', false)
    expect(lines).toHaveLength(3)
    expect(alerts.map(({ event, state, engine }) => [event, state, engine])).toEqual([
      ['pool_unreachable_engines', 'unreachable', null],
      ['pool_reachable', 'well', null],
      ['pool_unreachable_engines', 'unreachable', null],
    ])
  })

  it('a pool whose engines are checked is judged without engines of providers, which are not checked', () => {
    const { lines, check } = start([{ id: 'a' }, { kind: 'provider', id: 'p' }])
    check('a', false)
    expect(lines).toEqual(['pool_unreachable_engines'])
  })
})
