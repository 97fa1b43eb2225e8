/** CPU time of a refusal by the state of a pool with 64 engines, microseconds. */
import { readAdmission, readEngine } from '../../../src/core/contract/decode.ts'
import { defaultPool } from '../../replay/src/replay/default-pool.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'

const CALLS = 5_000

export function refusalUs(): number {
  const engines = Array.from({ length: 64 }, (_, at) => readEngine({ id: `e${at}` }))
  const pool = { ...defaultPool(), engines, maxWaiting: 1 }
  const state = new PoolState({ random: () => 0, epoch: 'bench' })
  state.configure(1, pool, 0)
  const blocks = Uint32Array.from({ length: 2 * 128 }, (_, at) => at)
  const ask = (id: number) => state.admit(readAdmission({ id: `r${id}`, promptTokens: 8192, blocks, model: 'm' }), 1)
  for (let id = 0; id < 64; id++) ask(id)
  for (let id = 0; id < CALLS; id++) ask(1_000 + id)
  const from = process.cpuUsage()
  for (let id = 0; id < CALLS; id++) if (!('refusal' in ask(10_000 + id))) throw new Error('it was admitted')
  const { user, system } = process.cpuUsage(from)
  return Number(((user + system) / CALLS).toFixed(1))
}
