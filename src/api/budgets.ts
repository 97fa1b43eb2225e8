/** Budgets of keys and teams: use, warnings, and requests of those that have spent theirs. */
import {
  addAmounts,
  type Budget,
  type BudgetAmounts,
  type BudgetState,
  budgetStates,
  type BudgetUnit,
  type BudgetUse,
  charged,
  NOTHING_USED,
  resetsAt,
} from '../core/budgets/budget.ts'
import type { BudgetCounts } from '../core/budgets/budget-counts.ts'
import { BoundedMap } from '../core/bounded-map.ts'
import { boundedName } from '../core/bounded-name.ts'
import { Failure } from '../failure.ts'
import type { Ports } from '../ports.ts'
import type { Limiter } from '../ports/limiter.ts'
import type { RequestScope } from '../ports/request-scope.ts'
import type { Caller } from './auth/caller.ts'
import type { BudgetView } from './openapi/usage.ts'

/** Age at which the use of an account is read again, ms: other gateways charge it, too. */
const REFRESH_MS = 1_000

const MAX_ACCOUNTS = 10_000

/** Share of a budget that the operator is warned of. */
const WARN_SHARE = 0.8

/** Whose requests are charged together: a key, or a team. */
interface BudgetAccount {
  /** Name at the limiter. */
  readonly key: string
  /** For messages: `This key`. */
  readonly subject: string
  readonly budgets: readonly Budget[]
}

type BudgetCaller = Pick<Caller, 'tenant' | 'budgets' | 'team'>

/** Accounts of a caller that have a budget. The names of keys have no colon. */
const accountsOf = ({ tenant, budgets, team }: BudgetCaller): readonly BudgetAccount[] =>
  [
    { key: tenant, subject: 'This key', budgets },
    ...(team === null ? [] : [{ key: `team:${team.name}`, subject: `The team ${team.name}`, budgets: team.budgets }]),
  ].filter((account) => account.budgets.length > 0)

/** Whether a caller has a budget, or its team has one. */
export const hasBudget = ({ budgets, team }: Pick<Caller, 'budgets' | 'team'>): boolean =>
  budgets.length > 0 || (team !== null && team.budgets.length > 0)

/** Whether a budget of the caller counts tokens. */
export const hasTokenBudget = ({ budgets, team }: Pick<Caller, 'budgets' | 'team'>): boolean =>
  [...budgets, ...(team?.budgets ?? [])].some(({ tokens }) => tokens !== null)

interface KnownUse {
  readonly use: BudgetUse | null
  readonly readAt: number
  /** Amounts that the carrier has not got yet. */
  readonly owed: BudgetAmounts
}

/** View of a budget, to which the caller adds the account. */
type UnnamedBudgetView = Omit<BudgetView, 'account'>

interface BudgetParts {
  readonly ports: Pick<Ports, 'now' | 'log' | 'alerts'>
  readonly limiter: Pick<Limiter, 'charge'>
}

export class Budgets {
  readonly #parts: BudgetParts
  readonly #known = new BoundedMap<string, KnownUse>(MAX_ACCOUNTS)
  readonly #counts = { warned: new Map<string, number>(), refused: new Map<string, number>() }
  #isReachable = true

  constructor(parts: BudgetParts) {
    this.#parts = parts
  }

  get counts(): BudgetCounts {
    return { warned: Object.fromEntries(this.#counts.warned), refused: Object.fromEntries(this.#counts.refused) }
  }

  /**
   * Returns the caller as its request is treated: `sheddable` if a budget that ends so is spent. Rejects with
   * `budget_spent`.
   */
  async admit(caller: Caller, scope: RequestScope): Promise<Caller> {
    let admitted = caller
    for (const account of accountsOf(caller)) {
      const spent = (await this.#statesOf(account, scope)).filter(({ used, limit }) => used >= limit)
      const refusing = spent.find(({ atEnd }) => atEnd === 'refuse')
      if (refusing !== undefined) throw this.#refusal(account, refusing)
      if (spent.length > 0) admitted = { ...admitted, requestClass: 'sheddable' }
    }
    return admitted
  }

  /** Charges the accounts of a caller. */
  charge(caller: BudgetCaller, amounts: Partial<BudgetAmounts>, scope: RequestScope): void {
    for (const account of accountsOf(caller)) scope.background(this.#charge(account, { ...NOTHING_USED, ...amounts }))
  }

  /** Budgets of an account for operators, as the carrier has them now. */
  async read(key: string, budgets: readonly Budget[]): Promise<readonly UnnamedBudgetView[]> {
    await this.#charge({ key, subject: key, budgets }, NOTHING_USED)
    const now = this.#parts.ports.now()
    const states = budgetStates(budgets, this.#known.get(key)?.use ?? null, now)
    return states.map(({ per, unit, limit, used, atEnd }): UnnamedBudgetView => ({
      per,
      unit: UNIT_NAMES[unit],
      limit,
      used,
      at_end: atEnd,
      resets_at: new Date(resetsAt(per, now)).toISOString(),
    }))
  }

  async #statesOf(account: BudgetAccount, scope: RequestScope): Promise<readonly BudgetState[]> {
    const now = this.#parts.ports.now()
    const known = this.#known.get(account.key)
    if (known === undefined) await this.#charge(account, NOTHING_USED)
    else if (now - known.readAt >= REFRESH_MS) {
      this.#known.set(account.key, { ...known, readAt: now })
      scope.background(this.#charge(account, NOTHING_USED))
    }
    return budgetStates(account.budgets, this.#known.get(account.key)?.use ?? null, now)
  }

  /** Never rejects. What the carrier does not get is counted here, and charged with the next amounts. */
  async #charge(account: BudgetAccount, amounts: BudgetAmounts): Promise<void> {
    const { key } = account
    const { limiter, ports } = this.#parts
    const owed = this.#known.get(key)?.owed ?? NOTHING_USED
    const all = addAmounts(owed, amounts)
    if (owed !== NOTHING_USED) this.#owes(key, NOTHING_USED)
    try {
      const use = await limiter.charge({ key, ...all })
      this.#reached(true, null)
      // Amounts that failed meanwhile stay owed.
      this.#known.set(key, { use, readAt: ports.now(), owed: this.#known.get(key)?.owed ?? NOTHING_USED })
      this.#report(account, use, all)
    } catch (error) {
      this.#reached(false, error)
      const known = this.#known.get(key)
      const use = charged(known?.use ?? null, amounts, ports.now())
      this.#known.set(key, { use, readAt: ports.now(), owed: addAmounts(known?.owed ?? NOTHING_USED, all) })
    }
  }

  #owes(key: string, owed: BudgetAmounts): void {
    const known = this.#known.get(key)
    if (known !== undefined) this.#known.set(key, { ...known, owed })
  }

  #reached(isReachable: boolean, error: unknown): void {
    if (isReachable === this.#isReachable) return
    this.#isReachable = isReachable
    const { log } = this.#parts.ports
    if (isReachable) log.info('budgets_available')
    else log.warn('budgets_unavailable', { holds: 'the last known state and what this gateway adds', error })
  }

  /** Warns once of each limit that these amounts have crossed. Of several gateways one charges the crossing amount. */
  #report({ key, budgets }: BudgetAccount, use: BudgetUse, amounts: BudgetAmounts): void {
    const now = this.#parts.ports.now()
    for (const state of budgetStates(budgets, use, now)) {
      const before = state.used - amounts[state.unit]
      const crosses = (share: number): boolean => before < share * state.limit && state.used >= share * state.limit
      if (crosses(1)) this.#warn('budget_spent', key, state)
      else if (crosses(WARN_SHARE)) this.#warn('budget_warning', key, state)
    }
  }

  #warn(event: 'budget_warning' | 'budget_spent', account: string, state: BudgetState): void {
    const { log, alerts, now } = this.#parts.ports
    const { per, unit, limit, used, atEnd } = state
    const resets = new Date(resetsAt(per, now())).toISOString()
    add(this.#counts.warned, account)
    log.warn(event, { account, per, unit: UNIT_NAMES[unit], limit, used, at_end: atEnd, resets_at: resets })
    alerts.raise({
      event,
      account,
      cluster: null,
      pool: null,
      engine: null,
      state: `${Math.round((100 * used) / limit)} % of ${limit} ${UNIT_TEXTS[unit]} per ${per}`,
      since: new Date(now()).toISOString(),
      hurt: null,
      did: event === 'budget_warning' ? 'nothing yet' : DID[atEnd],
      next: `raise the budget, or wait until ${resets}`,
    })
  }

  #refusal({ key, subject }: BudgetAccount, { per, unit, limit }: BudgetState): Failure {
    const { now } = this.#parts.ports
    add(this.#counts.refused, key)
    return new Failure(
      'budget_spent',
      `${subject} has spent its budget of ${limit} ${UNIT_TEXTS[unit]} per ${per}. ` +
        `It starts again at ${new Date(resetsAt(per, now())).toISOString()}.`,
    )
  }
}

const DID = { refuse: 'requests are refused', sheddable: 'requests have the class sheddable' } as const

/** As in the configuration. */
const UNIT_NAMES: Readonly<Record<BudgetUnit, string>> = { tokens: 'tokens', engineS: 'engine_s', money: 'money' }

const UNIT_TEXTS: Readonly<Record<BudgetUnit, string>> = {
  tokens: 'tokens',
  engineS: 'engine seconds',
  money: 'units of money',
}

function add(counts: Map<string, number>, name: string): void {
  const known = boundedName(counts, name)
  counts.set(known, (counts.get(known) ?? 0) + 1)
}
