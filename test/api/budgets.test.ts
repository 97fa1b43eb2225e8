import { expect, it } from 'vitest'
import { Budgets } from '../../src/api/budgets.ts'
import { ANYONE, type Caller } from '../../src/api/auth/caller.ts'
import { BudgetCounter } from '../../src/core/budgets/budget-counter.ts'
import type { Alert } from '../../src/ports/alerts.ts'
import type { RequestScope } from '../../src/ports/request-scope.ts'

const NOON = Date.UTC(2026, 10, 30, 12)

class World {
  now = NOON
  isAway = false
  readonly carrier = new BudgetCounter()
  readonly lines: (readonly [event: string, fields: unknown])[] = []
  readonly alerts: Alert[] = []
  readonly #work: Promise<unknown>[] = []
  readonly scope = { background: (work: Promise<unknown>) => void this.#work.push(work) } as RequestScope
  readonly budgets = this.open()
  readonly caller: Caller = {
    ...ANYONE,
    tenant: 'ada',
    budgets: [{ per: 'day', tokens: 100, engineS: null, money: null, atEnd: 'refuse' }],
  }

  open(): Budgets {
    const write = (event: string, fields?: unknown): void => void this.lines.push([event, fields])
    return new Budgets({
      ports: {
        now: () => this.now,
        log: { debug: write, info: write, warn: write, error: write },
        alerts: { raise: (alert) => void this.alerts.push(alert) },
      },
      limiter: {
        charge: async (charge) => {
          if (this.isAway) throw new Error('connection lost')
          return this.carrier.charge(charge, this.now)
        },
      },
    })
  }

  async settled(): Promise<void> {
    while (this.#work.length > 0) await this.#work.shift()
  }

  async charge(tokens: number, budgets = this.budgets): Promise<void> {
    budgets.charge(this.caller, { tokens }, this.scope)
    await this.settled()
  }

  async admit(budgets = this.budgets, caller = this.caller): Promise<string> {
    try {
      return (await budgets.admit(caller, this.scope)).requestClass
    } catch (error) {
      return (error as Error).message
    } finally {
      await this.settled()
    }
  }

  get events(): string[] {
    return this.lines.map(([event]) => event)
  }
}

it('a budget warns once at 80 percent and once when it is spent, in log and webhook', async () => {
  const world = new World()
  await world.charge(79)
  expect(world.events).toEqual([])
  await world.charge(2)
  await world.charge(2)
  expect(world.events).toEqual(['budget_warning'])
  expect(await world.admit()).toBe('standard')
  await world.charge(30)
  await world.charge(30)
  expect(world.events).toEqual(['budget_warning', 'budget_spent'])
  expect(world.lines[1]![1]).toMatchObject({ account: 'ada', per: 'day', unit: 'tokens', limit: 100, used: 113 })
  expect(world.alerts.map(({ event, account, did }) => [event, account, did])).toEqual([
    ['budget_warning', 'ada', 'nothing yet'],
    ['budget_spent', 'ada', 'requests are refused'],
  ])
  expect(await world.admit()).toContain('has spent its budget of 100 tokens per day')
})

it('a spent budget is open again in the next period, and when it is raised', async () => {
  const world = new World()
  await world.charge(200)
  expect(await world.admit()).toContain('has spent')
  const raised = { ...world.caller, budgets: [{ ...world.caller.budgets[0]!, tokens: 1_000 }] }
  expect(await world.admit(world.budgets, raised)).toBe('standard')
  world.now += 12 * 3_600_000
  expect(await world.admit()).toBe('standard')
})

it('a spent budget that ends as sheddable lowers the class of requests', async () => {
  const world = new World()
  const caller: Caller = { ...world.caller, budgets: [{ ...world.caller.budgets[0]!, atEnd: 'sheddable' }] }
  expect(await world.admit(world.budgets, caller)).toBe('standard')
  await world.charge(100)
  expect(await world.admit(world.budgets, caller)).toBe('sheddable')
})

it('two gateways spend one budget, and one of them warns', async () => {
  const world = new World()
  const other = world.open()
  expect(await world.admit(other)).toBe('standard')
  await world.charge(60)
  await world.charge(60, other)
  expect(world.events).toEqual(['budget_spent'])
  expect(await world.admit()).toBe('standard')
  // After a second the use is read again.
  world.now += 1_000
  await world.admit()
  expect(await world.admit()).toContain('has spent')
})

it('a budget holds at its last known state while its store is away, and is charged afterwards', async () => {
  const world = new World()
  await world.charge(90)
  world.isAway = true
  world.now += 5_000
  expect(await world.admit()).toBe('standard')
  await world.charge(6)
  await world.charge(6)
  expect(await world.admit()).toContain('has spent')
  expect(world.events.filter((event) => event === 'budgets_unavailable')).toHaveLength(1)
  world.isAway = false
  await world.charge(1)
  expect(world.events).toContain('budgets_available')
  expect(world.carrier.charge({ key: 'ada', tokens: 0, engineS: 0, money: 0 }, world.now).ofDay.tokens).toBe(103)
})
