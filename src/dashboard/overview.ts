import { curlOf } from './format.ts'
import { linesOf, roleOf, type EngineState, type Line } from './engine-state.ts'
import { call, Refused, savedKey, saveKey } from './gateway.ts'
import type { Pool } from './wire.ts'
import './overview.css'

interface Fleet {
  readonly draining: boolean
  readonly pools: readonly Pool[]
}

const refreshMs = 2_000
/** A hung gateway closes no connection, so requests have a time limit. */
const answerMs = 10_000

const find = <Kind extends HTMLElement = HTMLElement>(id: string) => document.getElementById(id) as Kind
const base = new URL('v1', location.href).href

function cell(text: string, kind = ''): HTMLTableCellElement {
  const td = document.createElement('td')
  td.textContent = text
  td.className = kind
  return td
}

const number = (value: number | null | undefined, unit = '') =>
  cell(value === null || value === undefined ? '–' : Math.round(value * 10) / 10 + unit, 'number')

/** `held`: healthy but not chosen now. */
const toneOf = (state: EngineState) =>
  state === 'unhealthy' || state === 'circuit' ? 'down' : state === 'up' || state === 'unknown' ? state : 'held'

function row({ pool, engine, state, text }: Line): HTMLTableRowElement {
  const tr = document.createElement('tr')
  tr.append(
    ...[engine.id, pool.cluster, pool.model, roleOf({ pool, engine })].map((value) => cell(value)),
    cell(text, toneOf(state)),
    number(engine.requests),
    number(engine.queued_prefill_s, ' s'),
    number(engine.ttft_ms, ' ms'),
    number(engine.requests_total),
    number(engine.failures_total),
  )
  return tr
}

function show({ pools, draining }: Fleet): void {
  const lines = linesOf(pools)
  document.querySelector('#engines tbody')!.replaceChildren(...lines.map(row))
  find('engines').hidden = false
  find('unlock').hidden = true
  const unavailable = pools.filter(({ reachable }) => !reachable).length
  find('state').textContent = [
    `${lines.length} in ${pools.length} ${pools.length === 1 ? 'pool' : 'pools'}`,
    ...(unavailable === 0 ? [] : [`${unavailable} unreachable`]),
    ...(draining ? ['shutting down'] : []),
  ].join(', ')
  const model = pools[0]?.aliases[0] ?? pools[0]?.model
  if (model !== undefined) showExample(model)
}

const showExample = (model: string) => {
  find('curl').textContent = curlOf(base, model)
}

/** The gateway's message about a missing key is for API clients, so the page shows its own. */
const whyNot = ({ status, message }: Refused) =>
  status === 401 && savedKey() === null ? 'locked: enter admin.secret of the configuration' : message

async function refresh(): Promise<void> {
  try {
    show((await (await call('v1/firstlight/fleet', { signal: AbortSignal.timeout(answerMs) })).json()) as Fleet)
  } catch (error) {
    find('state').textContent = error instanceof Refused ? whyNot(error) : 'the gateway does not answer'
    if (!(error instanceof Refused)) return
    find('unlock').hidden = error.status !== 401
    find('engines').hidden = true
  }
}

find('unlock').addEventListener('submit', (event) => {
  event.preventDefault()
  const field = find<HTMLInputElement>('key')
  saveKey(field.value)
  field.value = ''
  void refresh()
})
find('base').textContent = base
showExample('MODEL')
/** Polls with one request at a time. */
async function refreshForever(): Promise<void> {
  if (!document.hidden) await refresh()
  setTimeout(() => void refreshForever(), refreshMs)
}
void refreshForever()
